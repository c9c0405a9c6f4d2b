/** Client of the cofio service: one deadline per call, and a pause after a missed one. */
import { request as requestPlainly } from "node:http";
import { request as requestSecurely } from "node:https";
const REST_MS = 30_000;
const LARGEST = 2_000_000; // bytes of a reply
/** Failure of a call, with a message for people. */
export class Unanswered extends Error {
    name = "Unanswered";
}
export class Cofio {
    #find;
    #restUntil = 0;
    constructor(find) {
        this.#find = find;
    }
    /** Return the JSON reply of the service; undefined if it is empty. */
    async call(path, within, call) {
        if (!call.patient && Date.now() < this.#restUntil)
            throw new Unanswered("it rests after a missed deadline");
        const address = await this.#find();
        if (!address.url)
            throw new Unanswered("the service does not run");
        const deadline = AbortSignal.timeout(within(address));
        const signal = call.signal ? AbortSignal.any([call.signal, deadline]) : deadline;
        try {
            const { status, body } = await answered(new URL(`${address.url}${path}`), address.key, call, signal);
            if (status < 200 || status > 299)
                throw new Unanswered(`${status} ${refusal(body)}`.trim());
            this.#restUntil = 0;
            return body ? JSON.parse(body) : undefined;
        }
        catch (error) {
            if (deadline.aborted)
                this.#restUntil = Date.now() + REST_MS;
            throw deadline.aborted ? new Unanswered(`no answer within ${within(address)} ms`) : asUnanswered(error);
        }
    }
}
/** Send one request on a new connection. Redirects are not followed, since the request carries the key. */
function answered(url, key, call, signal) {
    const request = url.protocol === "https:" ? requestSecurely : requestPlainly;
    const raw = Buffer.from(call.body ?? "", "utf8");
    const options = { method: call.method ?? "POST", headers: headers(key, call, raw.length), signal, agent: false };
    return new Promise((resolve, reject) => {
        const asking = request(url, options, (response) => {
            const parts = [];
            let size = 0;
            response.on("data", (part) => {
                size += part.length;
                if (size > LARGEST)
                    response.destroy(new Unanswered("the answer is too long"));
                else
                    parts.push(part);
            });
            response.on("error", reject);
            response.on("end", () => {
                resolve({ status: response.statusCode ?? 0, body: Buffer.concat(parts).toString("utf8") });
            });
        });
        asking.on("error", reject);
        asking.end(raw);
    });
}
function headers(key, call, length) {
    return {
        ...(length ? { "Content-Type": "application/json" } : {}),
        "Content-Length": String(length),
        "X-Cofio-Client": "openclaw",
        ...(key ? { "X-API-Key": key } : {}),
        ...(call.project ? { "X-Cofio-Project": encodeURIComponent(call.project.toWellFormed()) } : {}),
        Connection: "close",
    };
}
/** Return the message and the hint of an error reply. */
function refusal(answer) {
    try {
        const { error } = JSON.parse(answer);
        return [error?.message, error?.hint].filter((part) => typeof part === "string").join(" ").slice(0, 300);
    }
    catch {
        return "";
    }
}
function asUnanswered(error) {
    if (error instanceof Unanswered)
        return error;
    const { code, message } = error;
    return new Unanswered(String(code ?? message ?? error));
}
