/**
 * Which project a folder belongs to: its repository's main working tree, so that all worktrees are one project; outside
 * of git the folder itself. The same rule as in the hooks of the other clients, and a test holds the two together.
 */

import { readFile, realpath, stat } from "node:fs/promises";
import { homedir } from "node:os";
import { dirname, isAbsolute, join, resolve } from "node:path";
import { variable } from "./settings.ts";

const PLUMBING = [".git", ".bare"]; // a common directory's own name says nothing about the project

/** The project at this folder; "" in the root and in the user's home. The variable COFIO_PROJECT names it instead. */
export async function projectOf(folder: string): Promise<string> {
  const named = variable("COFIO_PROJECT");
  if (named || !isAbsolute(folder) || folder.includes("\0")) return named;
  const [here, user] = await Promise.all([real(folder), real(homedir())]);
  if (here === user || dirname(here) === here) return "";
  return (await repository(here, user)) || here;
}

/** "openclaw/web" for the project /home/ann/web: what is learned there has it as its source. */
export function sourceOf(project: string): string {
  const parts = project.split("/").filter(Boolean);
  if (parts.length > 1 && PLUMBING.includes(parts.at(-1) ?? "")) parts.pop();
  const name = (parts.at(-1) ?? "").replace(/(?<=.)\.git$/, "");
  return name ? `openclaw/${name}` : "openclaw";
}

/** The repository around a folder, named by its main tree; "" when there is none below the home or the root. */
async function repository(start: string, user: string): Promise<string> {
  for (let here = start; here !== user && dirname(here) !== here; here = dirname(here)) {
    if (await isGit(join(here, ".git"))) return here;
    const found = (await pointed(here)) || ((await isGit(here)) ? await namedBy(here) : "");
    if (found) return found;
  }
  return "";
}

/** The repository that a tree's `.git` file points to; "" when it points nowhere. */
async function pointed(tree: string): Promise<string> {
  const told = await read(join(tree, ".git"));
  if (!told.startsWith("gitdir:")) return "";
  const folder = await real(resolve(tree, told.slice("gitdir:".length).trim()));
  const common = (await read(join(folder, "commondir"))).trim(); // of a linked worktree alone
  const shared = common ? await real(resolve(folder, common)) : folder;
  return (await isGit(shared)) ? namedBy(shared) : "";
}

/** The main tree of a common directory: beside it, or where its config says, as a submodule's does; else itself. */
async function namedBy(common: string): Promise<string> {
  if (common.endsWith("/.git")) return dirname(common);
  const told = /^\s*worktree\s*=\s*(.*)$/im.exec(await read(join(common, "config")))?.[1];
  return told === undefined ? common : real(resolve(common, told.trim().replace(/^"|"$/g, "")));
}

async function isGit(folder: string): Promise<boolean> {
  const [head, objects, refs] = await Promise.all(
    ["HEAD", "objects", "refs"].map((name) => stat(join(folder, name)).catch(() => undefined)),
  );
  return head?.isFile() === true && objects?.isDirectory() === true && refs?.isDirectory() === true;
}

function read(path: string): Promise<string> {
  return readFile(path, "utf8").catch(() => "");
}

function real(path: string): Promise<string> {
  return realpath(path).catch(() => resolve(path));
}
