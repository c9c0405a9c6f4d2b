/**
 * The part of OpenClaw's plugin interface that is used here.
 *
 * Every field set by OpenClaw is optional and of unknown type: the interface changes between versions, and a memory
 * plugin must not break an agent. A test compares these types with the declarations shipped by OpenClaw.
 */

/** Context of a hook call. */
export interface Context {
  readonly runId?: unknown;
  readonly jobId?: unknown;
  readonly sessionId?: unknown;
  readonly sessionKey?: unknown;
  readonly workspaceDir?: unknown;
  readonly trigger?: unknown;
  readonly messageProvider?: unknown;
  readonly inputProvenance?: unknown;
}

export interface PromptEvent {
  readonly prompt?: unknown;
  readonly currentUserMessage?: unknown;
  readonly messages?: unknown;
}

export interface EndEvent {
  readonly runId?: unknown;
  readonly messages?: unknown;
  readonly success?: unknown;
}

export interface SessionEvent {
  readonly sessionId?: unknown;
  readonly sessionKey?: unknown;
}

export interface PromptResult {
  prependContext?: string;
}

export interface ToolResult {
  content: { type: "text"; text: string }[];
  details: Record<string, unknown>;
}

export interface Tool {
  name: string;
  label: string;
  description: string;
  parameters: Record<string, unknown>;
  execute(this: void, id: string, input: unknown, signal?: AbortSignal): Promise<ToolResult>;
}

export interface ToolContext {
  readonly sessionKey?: string;
  readonly workspaceDir?: string;
}

export interface Logger {
  debug?: (message: string) => void;
  info: (message: string) => void;
}

export interface MemoryCapability {
  promptBuilder: (options: { availableTools: Set<string> }) => string[];
  flushPlanResolver: () => null;
}

export interface Host {
  readonly pluginConfig?: Record<string, unknown>;
  readonly logger: Logger;
  registerMemoryCapability?: (capability: MemoryCapability) => void;
  registerTool: (make: (context: ToolContext) => Tool[] | null, options: { names: string[] }) => void;
  on(
    name: "before_prompt_build",
    hook: (event: PromptEvent, context: Context) => Promise<PromptResult | undefined>,
  ): void;
  on(name: "agent_end", hook: (event: EndEvent, context: Context) => Promise<void>): void;
  on(name: "before_compaction", hook: (event: object, context: Context) => Promise<void>): void;
  on(name: "session_end", hook: (event: SessionEvent, context: Context) => Promise<void>): void;
  on(name: "gateway_stop", hook: () => Promise<void>): void;
}
