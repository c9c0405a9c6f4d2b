/** Spool of failed deliveries on disk: one file per delivery, which the service reads when it is available again. */

import { randomBytes } from "node:crypto";
import { mkdir, open, readdir, rename, unlink } from "node:fs/promises";
import { join } from "node:path";

const MOST_FILES = 10_000;

/**
 * Write a delivery to the spool: a header line, then the JSON as it would have been sent. It is on the disk when this
 * returns; a reader sees a complete file or none.
 */
export async function spool(home: string, payload: string, project: string, event: string): Promise<void> {
  const folder = join(home, "spool");
  await mkdir(folder, { recursive: true, mode: 0o700 });
  if ((await readdir(folder)).length >= MOST_FILES) throw new Error("the spool is full");
  const nanoseconds = String(BigInt(Date.now()) * 1_000_000n + (process.hrtime.bigint() % 1_000_000n));
  const name = `${nanoseconds.padStart(20, "0")}-${process.pid}-${randomBytes(4).toString("hex")}`;
  const raw = Buffer.from(payload, "utf8");
  const about = { client: "openclaw", at: new Date().toISOString(), project, event, bytes: raw.length };
  const unnamed = join(folder, `.${name}.part`);
  try {
    await written(unnamed, Buffer.concat([Buffer.from(`${JSON.stringify(about)}\n`, "utf8"), raw]));
    await rename(unnamed, join(folder, `${name}.hook`));
  } catch (error) {
    await unlink(unnamed).catch(() => undefined);
    throw error;
  }
  await settled(folder);
}

async function written(path: string, content: Uint8Array): Promise<void> {
  const file = await open(path, "wx", 0o600);
  try {
    await file.writeFile(content);
    await file.sync();
  } finally {
    await file.close();
  }
}

/** Sync the folder, so that its new entry survives a power cut. Some systems do not allow opening a folder. */
async function settled(folder: string): Promise<void> {
  const opened = await open(folder, "r").catch(() => undefined);
  await opened?.sync().catch(() => undefined);
  await opened?.close();
}
