/** Inbox. */

import { enter } from "./frame.js";

enter({ show: () => {}, empty: () => {} });
