/**
 * Recall and capture in OpenClaw's sessions: each prompt gets its memories, each finished turn is captured.
 *
 *     before_prompt_build ─▶ POST /hooks/openclaw ─▶ injected before the prompt
 *     agent_end ─▶ POST /hooks/openclaw ─ no reply ─▶ spool
 *     before_compaction, session_end ─▶ held turns of the session are learned from now
 *
 * Nothing here throws or exceeds its deadline: an agent must keep working without its memory.
 */

import { Cofio } from "./cofio.ts";
import type { Context, EndEvent, Logger, PromptEvent, PromptResult, SessionEvent } from "./host.ts";
import { projectOf } from "./project.ts";
import { type Address, type Chosen, address, home, isOff } from "./settings.ts";
import { spool } from "./spool.ts";
import { asked, digestOf, fields, isGroup, isInteractive, lastTurn, sessionOf, text } from "./turn.ts";

const PATH = "/hooks/openclaw";
const RUNS = 500; // remembered at most; older ones have ended

/** Payload of an event, with the field names of cofio's hooks. */
interface Told {
  event: string;
  session: string;
  turn?: string;
  cwd?: string;
  began?: string;
  prompt?: string;
  reply?: string;
}

export class Memory {
  readonly cofio: Cofio;
  readonly #choice: Chosen;
  readonly #log: Logger;
  readonly #prompts = new Map<string, string>(); // by run: the user's prompt; "" without one
  readonly #recalled = new Map<string, Promise<string>>(); // by prompt of a run, which may be built several times
  readonly #pending = new Set<Promise<void>>();

  constructor(choice: Chosen, log: Logger) {
    this.#choice = choice;
    this.#log = log;
    this.cofio = new Cofio(() => address(choice));
  }

  /** Return the context to inject before the prompt. */
  async recall(event: PromptEvent, context: Context): Promise<PromptResult | undefined> {
    const prompt = this.#isOurs(context) ? asked(event.prompt, event.currentUserMessage) : "";
    remember(this.#prompts, text(context.runId), prompt);
    if (!prompt || !this.#choice.autoRecall) return undefined;
    const session = sessionOf(context);
    const turn = text(context.runId) || digestOf(session, prompt);
    const key = JSON.stringify([session, turn, prompt]);
    const recalling = this.#recalled.get(key) ?? this.#recall(session, turn, text(context.workspaceDir), prompt);
    remember(this.#recalled, key, recalling);
    try {
      const found = await recalling;
      return found ? { prependContext: found } : undefined;
    } catch (error) {
      this.#recalled.delete(key); // allows a retry if the prompt is built again
      this.#say("nothing is recalled", error);
      return undefined;
    }
  }

  /** Capture the finished turn. */
  async capture(event: EndEvent, context: Context): Promise<void> {
    const run = text(event.runId) || text(context.runId);
    const known = this.#prompts.get(run);
    const turn = this.#isOurs(context) && known !== "" ? lastTurn(event.messages) : undefined;
    if (!turn?.prompt && !turn?.reply) return;
    const session = sessionOf(context);
    const prompt = known !== undefined && turn.prompt.includes(known) ? known : turn.prompt;
    await this.#kept({
      event: "agent_end",
      session,
      turn: run || digestOf(session, prompt),
      cwd: text(context.workspaceDir),
      prompt,
      reply: turn.reply,
    });
  }

  /** Learn from the held turns of a session now. */
  async release(event: "before_compaction" | "session_end", of: SessionEvent, context: Context): Promise<void> {
    const session = sessionOf(context) || sessionOf(of);
    if (!session || isOff()) return;
    try {
      await this.#post({ event, session }, "", captureWithin);
    } catch (error) {
      this.#say(`${event} is not told`, error); // the turns are learned from a little later
    }
  }

  /** Wait for pending deliveries. */
  async settle(): Promise<void> {
    await Promise.allSettled([...this.#pending]);
  }

  #isOurs(context: Context): boolean {
    return !isOff() && isInteractive(context) && (this.#choice.groups || !isGroup(context.sessionKey));
  }

  /**
   * Recall the session briefing and the memories for this prompt within one deadline. OpenClaw keeps neither in the
   * conversation, so each prompt needs both: the context of an earlier prompt is no longer visible to the agent.
   */
  async #recall(session: string, turn: string, cwd: string, prompt: string): Promise<string> {
    const since = Date.now();
    const within = (told: Address): number => Math.max(1, told.recallMs - (Date.now() - since));
    const project = await projectOf(cwd);
    const start = await this.#told({ event: "session_start", session, cwd, began: "clear" }, project, within);
    const finding = this.#choice.autoCapture
      ? this.#told({ event: "before_prompt_build", session, turn, cwd, prompt }, project, within)
      : this.#recalledOnly(prompt, project, within);
    const found = await finding.catch((error: unknown) => {
      if (!start) throw error;
      this.#say("only what always matters is recalled", error);
      return "";
    });
    return [start, found].filter(Boolean).join("\n\n");
  }

  /** Return the context that the service injects for an event. */
  async #told(told: Told, project: string, within: (told: Address) => number): Promise<string> {
    return text(fields(await this.#post(told, project, within))["context"]);
  }

  /** Return the memories for a prompt by an interface that does not store the prompt. */
  async #recalledOnly(prompt: string, project: string, within: (told: Address) => number): Promise<string> {
    const answer = await this.cofio.call("/recall", within, { body: JSON.stringify({ prompt, project }) });
    return text(fields(answer)["text"]);
  }

  /** Deliver a turn, or write it to the spool. */
  #kept(told: Told): Promise<void> {
    const keeping = this.#delivered(told).catch((error: unknown) => this.#say("a turn is lost", error));
    this.#pending.add(keeping);
    return keeping.finally(() => this.#pending.delete(keeping));
  }

  async #delivered(told: Told): Promise<void> {
    const project = await projectOf(told.cwd ?? "");
    try {
      await this.#post(told, project, captureWithin);
    } catch (error) {
      await spool(home(this.#choice), JSON.stringify(told), project, told.event);
      this.#say("a turn is spooled", error);
    }
  }

  #post(told: Told, project: string, within: (address: Address) => number): Promise<unknown> {
    return this.cofio.call(PATH, within, { body: JSON.stringify(told), project });
  }

  #say(what: string, error: unknown): void {
    this.#log.debug?.(`cofio: ${what}: ${error instanceof Error ? error.message : String(error)}`);
  }
}

function captureWithin(told: Address): number {
  return told.captureMs;
}

/** Add a value as the newest, and drop the oldest if there are too many. */
function remember<Value>(values: Map<string, Value>, key: string, value: Value): void {
  if (!key) return;
  values.delete(key);
  values.set(key, value);
  const oldest = values.keys().next().value;
  if (values.size > RUNS && oldest !== undefined) values.delete(oldest);
}
