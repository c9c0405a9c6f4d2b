/**
 * Attending OpenClaw's sessions: each prompt gets what is remembered, each turn is handed over once it is over.
 *
 *     before_prompt_build ─▶ POST /hooks/openclaw ─▶ put before the prompt
 *     agent_end ─▶ POST /hooks/openclaw ─ no answer ─▶ spool
 *     before_compaction, session_end ─▶ what is held of the session is learned from now
 *
 * Nothing in here throws or waits beyond its deadline: an agent without its memory is still an agent.
 */
import { Cofio } from "./cofio.js";
import { projectOf } from "./project.js";
import { address, home, isOff } from "./settings.js";
import { spool } from "./spool.js";
import { asked, digestOf, fields, isGroup, isInteractive, lastTurn, sessionOf, text } from "./turn.js";
const PATH = "/hooks/openclaw";
const RUNS = 500; // that are remembered; an older one is over
export class Memory {
    cofio;
    #choice;
    #log;
    #prompts = new Map(); // of a run, in the user's words; "" where nobody spoke
    #recalled = new Map(); // for a prompt of a run, which may be built several times
    #pending = new Set();
    constructor(choice, log) {
        this.#choice = choice;
        this.#log = log;
        this.cofio = new Cofio(() => address(choice));
    }
    /** What is to stand before the prompt. */
    async recall(event, context) {
        const prompt = this.#isOurs(context) ? asked(event.prompt, event.currentUserMessage) : "";
        remember(this.#prompts, text(context.runId), prompt);
        if (!prompt || !this.#choice.autoRecall)
            return undefined;
        const session = sessionOf(context);
        const turn = text(context.runId) || digestOf(session, prompt);
        const key = JSON.stringify([session, turn, prompt]);
        const recalling = this.#recalled.get(key) ?? this.#recall(session, turn, text(context.workspaceDir), prompt);
        remember(this.#recalled, key, recalling);
        try {
            const found = await recalling;
            return found ? { prependContext: found } : undefined;
        }
        catch (error) {
            this.#recalled.delete(key); // it may be asked again, should the prompt be built again
            this.#say("nothing is recalled", error);
            return undefined;
        }
    }
    /** Hand over the turn that is over. */
    async capture(event, context) {
        const run = text(event.runId) || text(context.runId);
        const known = this.#prompts.get(run);
        const turn = this.#isOurs(context) && known !== "" ? lastTurn(event.messages) : undefined;
        if (!turn?.prompt && !turn?.reply)
            return;
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
    /** Have what is held of a session learned from now. */
    async release(event, of, context) {
        const session = sessionOf(context) || sessionOf(of);
        if (!session || isOff())
            return;
        try {
            await this.#post({ event, session }, "", captureWithin);
        }
        catch (error) {
            this.#say(`${event} is not told`, error); // it is learned from a little later
        }
    }
    /** Wait for what is on its way. */
    async settle() {
        await Promise.allSettled([...this.#pending]);
    }
    #isOurs(context) {
        return !isOff() && isInteractive(context) && (this.#choice.groups || !isGroup(context.sessionKey));
    }
    /**
     * What always matters and what matters to this prompt, in one deadline. OpenClaw keeps neither in the conversation,
     * so each prompt begins anew: what the prompt before was given is not before the agent any more.
     */
    async #recall(session, turn, cwd, prompt) {
        const since = Date.now();
        const within = (told) => Math.max(1, told.recallMs - (Date.now() - since));
        const project = await projectOf(cwd);
        const start = await this.#told({ event: "session_start", session, cwd, began: "clear" }, project, within);
        const finding = this.#choice.autoCapture
            ? this.#told({ event: "before_prompt_build", session, turn, cwd, prompt }, project, within)
            : this.#recalledOnly(prompt, project, within);
        const found = await finding.catch((error) => {
            if (!start)
                throw error;
            this.#say("only what always matters is recalled", error);
            return "";
        });
        return [start, found].filter(Boolean).join("\n\n");
    }
    /** What the service wants put before the agent. */
    async #told(told, project, within) {
        return text(fields(await this.#post(told, project, within))["context"]);
    }
    /** The same without the service's being told of a prompt, which it would keep. */
    async #recalledOnly(prompt, project, within) {
        const answer = await this.cofio.call("/recall", within, { body: JSON.stringify({ prompt, project }) });
        return text(fields(answer)["text"]);
    }
    /** Deliver a turn, or put it into the spool. */
    #kept(told) {
        const keeping = this.#delivered(told).catch((error) => this.#say("a turn is lost", error));
        this.#pending.add(keeping);
        return keeping.finally(() => this.#pending.delete(keeping));
    }
    async #delivered(told) {
        const project = await projectOf(told.cwd ?? "");
        try {
            await this.#post(told, project, captureWithin);
        }
        catch (error) {
            await spool(home(this.#choice), JSON.stringify(told), project, told.event);
            this.#say("a turn is spooled", error);
        }
    }
    #post(told, project, within) {
        return this.cofio.call(PATH, within, { body: JSON.stringify(told), project });
    }
    #say(what, error) {
        this.#log.debug?.(`cofio: ${what}: ${error instanceof Error ? error.message : String(error)}`);
    }
}
function captureWithin(told) {
    return told.captureMs;
}
/** Put a value in as the newest, and let the oldest go when there are too many. */
function remember(values, key, value) {
    if (!key)
        return;
    values.delete(key);
    values.set(key, value);
    const oldest = values.keys().next().value;
    if (values.size > RUNS && oldest !== undefined)
        values.delete(oldest);
}
