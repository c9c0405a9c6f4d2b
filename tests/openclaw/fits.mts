/** Held against what OpenClaw declares: the plugin, and what the plugin takes its host to be. */

import type {
  AnyAgentTool,
  OpenClawPluginApi,
  OpenClawPluginDefinition,
  OpenClawPluginToolContext,
} from "openclaw/plugin-sdk/plugin-entry";
import type { Host, Tool, ToolContext } from "../../integrations/openclaw/src/host.ts";
import plugin from "../../integrations/openclaw/src/index.ts";

export const definition: OpenClawPluginDefinition = plugin;
export const host = (theirs: OpenClawPluginApi): Host => theirs;
export const tool = (ours: Tool): AnyAgentTool => ours;
export const context = (theirs: OpenClawPluginToolContext): ToolContext => theirs;

// @ts-expect-error - were the declarations not found, anything would fit
export const unfit: OpenClawPluginDefinition = { id: 1 };
// @ts-expect-error - the same for hooks
export const unhooked = (theirs: OpenClawPluginApi): void => theirs.on("agent_end", (event) => event.prompt);
