/** Settings and doctor. */

import { enter } from "./frame.js";

enter({ show: () => {}, empty: () => {} });
