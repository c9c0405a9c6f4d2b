/**
 * What of OpenClaw's plugin interface is used here, and no more.
 *
 * Every field that OpenClaw fills is optional and of no certain type: the interface changes between versions, and a
 * memory must not break an agent because of it. A test holds these against the declarations that OpenClaw ships.
 */
export {};
