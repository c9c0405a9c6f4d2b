/**
 * The part of OpenClaw's plugin interface that is used here.
 *
 * Every field set by OpenClaw is optional and of unknown type: the interface changes between versions, and a memory
 * plugin must not break an agent. A test compares these types with the declarations shipped by OpenClaw.
 */
export {};
