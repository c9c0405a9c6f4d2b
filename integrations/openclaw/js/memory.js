/**
 * Recall and capture in OpenClaw's sessions: each prompt gets its memories, each finished turn is captured.
 *
 *     before_prompt_build ─▶ POST /hooks/openclaw ─▶ injected before the prompt
 *     agent_end ─▶ POST /hooks/openclaw ─ no reply ─▶ spool
 *     before_compaction, session_end ─▶ held turns of the session are learned from now
 *
 * Nothing here throws or exceeds its deadline: an agent must keep working without its memory.
 */
import { Cofio } from "./cofio.js";
import { projectOf } from "./project.js";
import { address, home, isOff } from "./settings.js";
import { spool } from "./spool.js";
import { digestOf, fields, isGroup, isInteractive, lastTurn, sessionOf, text, userPrompt } from "./turn.js";
const PATH = "/hooks/openclaw";
const BLOCK = /^<cofio-memory>\n(?:(?!<\/?cofio-memory)[^])*\n<\/cofio-memory>$/; // of one recall
const RUNS = 500; // remembered at most; older ones have ended
export class Memory {
    cofio;
    #choice;
    #log;
    #prompts = new Map(); // by run: the user's prompt; "" without one
    #recalled = new Map(); // by prompt of a run, which may be built several times
    #pending = new Set();
    constructor(choice, log) {
        this.#choice = choice;
        this.#log = log;
        this.cofio = new Cofio(() => address(choice));
    }
    /** Return the context to inject before the prompt. */
    async recall(event, context) {
        const prompt = this.#isOurs(context) ? userPrompt(event.prompt, event.currentUserMessage) : "";
        remember(this.#prompts, text(context.runId), prompt);
        if (!prompt || !this.#choice.autoRecall)
            return undefined;
        const session = sessionOf(context);
        const turn = text(context.runId) || digestOf(session, prompt);
        const key = JSON.stringify([session, turn, prompt]);
        const recalling = this.#recalled.get(key) ?? this.#recall(session, turn, text(context.workspaceDir), prompt);
        remember(this.#recalled, key, recalling);
        try {
            const recalled = await recalling;
            return recalled ? { prependContext: recalled } : undefined;
        }
        catch (error) {
            this.#recalled.delete(key); // allows a retry if the prompt is built again
            this.#debug("recall failed", error);
            return undefined;
        }
    }
    /** Capture the finished turn. */
    async capture(event, context) {
        const run = text(event.runId) || text(context.runId);
        const recalledPrompt = this.#prompts.get(run);
        const turn = this.#isOurs(context) && recalledPrompt !== "" ? lastTurn(event.messages) : undefined;
        if (!turn?.prompt && !turn?.reply)
            return;
        const session = sessionOf(context);
        const prompt = recalledPrompt !== undefined && turn.prompt.includes(recalledPrompt) ? recalledPrompt : turn.prompt;
        await this.#deliver({
            event: "agent_end",
            session,
            turn: run || digestOf(session, prompt),
            cwd: text(context.workspaceDir),
            prompt,
            reply: turn.reply,
        });
    }
    /** Learn from the held turns of a session now. */
    async release(event, of, context) {
        const session = sessionOf(context) || sessionOf(of);
        if (!session || isOff())
            return;
        try {
            await this.#post({ event, session }, "", captureWithin);
        }
        catch (error) {
            this.#debug(`${event} is not delivered`, error); // the turns are learned from a little later
        }
    }
    /** Wait for pending deliveries. */
    async settle() {
        await Promise.allSettled([...this.#pending]);
    }
    #isOurs(context) {
        return !isOff() && isInteractive(context) && (this.#choice.groups || !isGroup(context.sessionKey));
    }
    /**
     * Recall the session briefing and the memories for this prompt within one deadline. OpenClaw keeps neither in the
     * conversation, so each prompt needs both: the context of an earlier prompt is no longer visible to the agent.
     */
    async #recall(session, turn, cwd, prompt) {
        const since = Date.now();
        const within = (target) => Math.max(1, target.recallMs - (Date.now() - since));
        const project = await projectOf(cwd);
        const started = { event: "session_start", session, cwd, began: "clear" };
        const start = await this.#injectedContext(started, project, within);
        const recalling = this.#choice.autoCapture
            ? this.#injectedContext({ event: "before_prompt_build", session, turn, cwd, prompt }, project, within)
            : this.#recallOnly(prompt, project, within);
        const memories = await recalling.catch((error) => {
            if (!start)
                throw error;
            this.#debug("only the session briefing is recalled", error);
            return "";
        });
        return [start, memories].filter(Boolean).join("\n\n");
    }
    /** Return the context that the service injects for an event. */
    async #injectedContext(payload, project, within) {
        return ownBlock(fields(await this.#post(payload, project, within))["context"]);
    }
    /** Return the memories for a prompt by an interface that does not store the prompt. */
    async #recallOnly(prompt, project, within) {
        const answer = await this.cofio.call("/recall", within, { body: JSON.stringify({ prompt, project }) });
        return ownBlock(fields(answer)["text"]);
    }
    /** Deliver a turn, or write it to the spool. */
    #deliver(payload) {
        const delivery = this.#postOrSpool(payload).catch((error) => this.#debug("turn lost", error));
        this.#pending.add(delivery);
        return delivery.finally(() => this.#pending.delete(delivery));
    }
    async #postOrSpool(payload) {
        const project = await projectOf(payload.cwd ?? "");
        try {
            await this.#post(payload, project, captureWithin);
        }
        catch (error) {
            await spool(home(this.#choice), JSON.stringify(payload), project, payload.event);
            this.#debug("turn spooled", error);
        }
    }
    #post(payload, project, within) {
        return this.cofio.call(PATH, within, { body: JSON.stringify(payload), project });
    }
    #debug(message, error) {
        this.#log.debug?.(`cofio: ${message}: ${error instanceof Error ? error.message : String(error)}`);
    }
}
/** Return the context if it is one block of cofio; "" for anything else. */
function ownBlock(context) {
    return BLOCK.test(text(context)) ? text(context) : "";
}
function captureWithin(target) {
    return target.captureMs;
}
/** Add a value as the newest, and drop the oldest if there are too many. */
function remember(values, key, value) {
    if (!key)
        return;
    values.delete(key);
    values.set(key, value);
    const oldest = values.keys().next().value;
    if (values.size > RUNS && oldest !== undefined)
        values.delete(oldest);
}
