/** Speaker and words of the finished turn, without the wrappers that OpenClaw and its channels add. */
import { createHash } from "node:crypto";
const LONGEST = 100_000; // characters of a prompt, and of a reply
const INTERNAL_PROVIDERS = new Set(["heartbeat", "cron-event", "exec-event"]);
const INTERNAL_ORIGINS = new Set(["inter_session", "internal_system"]);
const INTERNAL_SESSIONS = /(?:^|:)(?:subagent|cron|heartbeat|hook|dreaming-narrative-[a-z]+)(?:[:-]|$)/i;
const GROUP_SESSIONS = /:(?:group|channel):/i;
const SILENT = /^(?:NO_REPLY|HEARTBEAT_OK)$/i;
/** Return whether a person speaks, according to the context: no heartbeat, no schedule, no other agent. */
export function isInteractive(context) {
    const trigger = text(context.trigger);
    return ((trigger === "" || trigger === "user") &&
        !text(context.jobId) &&
        !INTERNAL_PROVIDERS.has(text(context.messageProvider).toLowerCase()) &&
        !INTERNAL_ORIGINS.has(text(fields(context.inputProvenance)["kind"])) &&
        !INTERNAL_SESSIONS.test(text(context.sessionKey)));
}
/** Return whether the session is a group or a channel. */
export function isGroup(sessionKey) {
    return GROUP_SESSIONS.test(text(sessionKey));
}
/** Return the session's name: the id that changes with a new or reset session, or else the key. */
export function sessionOf(context) {
    return text(context.sessionId) || text(context.sessionKey);
}
/** Return the turn's name if the run has none: the same words in the same session are the same turn. */
export function digestOf(session, prompt) {
    const words = JSON.stringify([session, prompt.split(/\s+/)]);
    return `w${createHash("sha256").update(words).digest("hex").slice(0, 20)}`;
}
/** Return the user's words. An empty `currentUserMessage` means that there are none, even if the prompt has text. */
export function userPrompt(prompt, currentUserMessage) {
    return typeof currentUserMessage === "string" ? personWords(currentUserMessage) : personWords(text(prompt));
}
/** Return the last turn: from the last user message on. Undefined if that message is from another agent. */
export function lastTurn(messages) {
    const items = Array.isArray(messages) ? messages.map(fields) : [];
    const start = items.findLastIndex((item) => item["role"] === "user" && textOf(item["content"]).trim() !== "");
    const first = items[start];
    if (!first || INTERNAL_ORIGINS.has(text(fields(first["provenance"])["kind"])))
        return undefined;
    const later = items.slice(start + 1);
    const replies = later.filter((item) => item["role"] === "assistant" && item["stopReason"] !== "error");
    const words = replies.map((reply) => textOf(reply["content"]).trim()).filter((reply) => reply && !SILENT.test(reply));
    return { prompt: personWords(textOf(first["content"])), reply: words.join("\n\n").slice(-LONGEST) };
}
/** Return the text of a message's content: a string, or blocks of which some are texts. */
function textOf(content) {
    if (typeof content === "string")
        return content;
    const blocks = Array.isArray(content) ? content.map(fields) : [];
    const texts = blocks.filter((block) => block["type"] === "text").map((block) => text(block["text"]));
    return texts.filter(Boolean).join("\n");
}
// ── message wrappers ──────────────────────────────────────────────────────────────────────────────────────────────
const CONTEXT_MARK = "⟦openclaw:ctx⟧";
const EARLIER_MARKS = /\((?:untrusted metadata|untrusted,? for context|metadata,? do not treat as [^)]*)\):$/i;
const TO_THE_END = /^(?:Untrusted context \(|Context: ⟦)/;
const WRAPPERS = [
    ["<cofio-memory>", "</cofio-memory>"],
    ["<active_memory_plugin>", "</active_memory_plugin>"],
    ["<relevant-memories>", "</relevant-memories>"],
    ["<<<BEGIN_OPENCLAW_INTERNAL_CONTEXT", "<<<END_OPENCLAW_INTERNAL_CONTEXT"],
    ["<<<EXTERNAL_UNTRUSTED_CONTENT", "<<<END_EXTERNAL_UNTRUSTED_CONTENT"],
    ["[Replying to ", "[/Replying]"],
];
const LINES = [
    /^\[message_id: ?[^\]\n]*\]$/i,
    /^\[media attached\b[^\n]*\]$/i,
    /^<media:[a-z]+>$/i,
    /^Delivery: [^\n]*`message` tool[^\n]*$/,
    /^\[OpenClaw (?:heartbeat poll|exec completion|cron wake|session event)\]$/,
];
const CURRENT = "[Current message - respond to this]";
const ENVELOPE = /^\[([^\]\n]{1,300})\] */;
const CHANNELS = /^(?:WebChat|WhatsApp|Telegram|Signal|Slack|Discord|Google Chat|iMessage|Teams|Matrix|Zalo)\b/;
const A_TIME = /\b\d{4}-\d\d-\d\d[T ]\d\d:\d\d/;
/** Return a person's words from a message as delivered by a channel. */
function personWords(message) {
    let words = message.slice(0, 4 * LONGEST).replace(/\r\n?/g, "\n");
    for (const [open, close] of WRAPPERS)
        words = without(words, open, close);
    words = withoutMetadata(words);
    const current = words.lastIndexOf(CURRENT);
    if (current >= 0)
        words = words.slice(current + CURRENT.length);
    return withoutEnvelope(words.trim()).trim().slice(0, LONGEST);
}
/** Return the message without the spans between two marks, marks included. An unclosed span stays. */
function without(message, open, close) {
    let result = "";
    let at = 0;
    for (;;) {
        const start = message.indexOf(open, at);
        const end = start < 0 ? -1 : message.indexOf(close, start);
        if (end < 0)
            return result + message.slice(at);
        result += message.slice(at, start);
        const closing = close.startsWith("<<<") ? message.indexOf(">>>", end) + 3 - end : close.length;
        at = end + Math.max(close.length, closing);
    }
}
/** Return the message without metadata blocks: a marked line with the following fenced JSON or paragraph. */
function withoutMetadata(message) {
    const lines = message.split("\n");
    const remaining = [];
    for (let at = 0; at < lines.length; at += 1) {
        const line = (lines[at] ?? "").trim();
        const isMarked = line.endsWith(CONTEXT_MARK) || EARLIER_MARKS.test(line);
        if (isMarked && TO_THE_END.test(line))
            break;
        if (isMarked)
            at = endOfBlock(lines, at);
        else if (!LINES.some((pattern) => pattern.test(line)))
            remaining.push(lines[at] ?? "");
    }
    return remaining.join("\n");
}
/** Return the last line of the block with this header line. */
function endOfBlock(lines, header) {
    const isFenced = (lines[header + 1] ?? "").trim().startsWith("```");
    let at = header + (isFenced ? 2 : 1);
    while (at < lines.length && lines[at]?.trim() !== (isFenced ? "```" : ""))
        at += 1;
    return at;
}
/** Return the message without a prefix such as "[Telegram Ann id:7 2026-11-15 10:00] Ann: ". */
function withoutEnvelope(message) {
    const header = ENVELOPE.exec(message)?.[1];
    if (header === undefined || !(CHANNELS.test(header) || A_TIME.test(header)))
        return message;
    const body = message.replace(ENVELOPE, "");
    const speaker = /^([^:\n]{1,80}): /.exec(body)?.[1];
    return speaker !== undefined && header.includes(speaker) ? body.slice(speaker.length + 2) : body;
}
// ── values of unknown type ─────────────────────────────────────────────────────────────────────────────────────────
export function text(value) {
    return typeof value === "string" ? value : "";
}
export function fields(value) {
    return typeof value === "object" && value !== null ? value : {};
}
