/**
 * Check that the service of `hook.at` runs: it holds the lock of its store, and the lock file names its address.
 *
 * A service that was killed leaves `hook.at` behind, and another program may listen at that address by now: it must not
 * receive a prompt or a key.
 */
import { constants } from "node:fs";
import { open, readFile, stat } from "node:fs/promises";
const O_SHLOCK = 0x10; // of macOS: takes the lock while opening, or fails
const HELD = /^\d+: FLOCK +ADVISORY +WRITE (\d+) [0-9a-f]+:[0-9a-f]+:(\d+) /gm; // of /proc/locks: process, file
/** Return whether a process of this user holds the lock and serves at this address. */
export async function isServed(path, url) {
    try {
        const file = await stat(path);
        const holders = await holdersOf(path, file.ino);
        const { pid, url: served } = JSON.parse(await readFile(path, "utf8"));
        return file.uid === process.getuid?.() && Boolean(url) && served === url && holders(Number(pid));
    }
    catch {
        return false;
    }
}
/** Return whether a process holds the lock; macOS does not tell which. */
async function holdersOf(path, inode) {
    if (process.platform === "darwin") {
        const isHeld = await isLocked(path);
        return () => isHeld;
    }
    const locks = [...(await readFile("/proc/locks", "utf8")).matchAll(HELD)];
    return (pid) => locks.some(([, holder, file]) => Number(holder) === pid && Number(file) === inode);
}
async function isLocked(path) {
    try {
        const file = await open(path, constants.O_RDONLY | constants.O_NONBLOCK | O_SHLOCK);
        await file.close();
        return false;
    }
    catch (error) {
        return ["EAGAIN", "EWOULDBLOCK"].includes(String(error.code));
    }
}
