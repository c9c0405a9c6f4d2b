/** Agents and keys. */

import { enter } from "./frame.js";

enter({ show: () => {}, empty: () => {} });
