/**
 * The project of a folder: its repository's main working tree, so that all worktrees are one project; outside of git
 * the folder itself. The hooks of the other clients have the same rule, and a test compares the two.
 */

import { readFile, realpath, stat } from "node:fs/promises";
import { homedir } from "node:os";
import { dirname, isAbsolute, join, resolve } from "node:path";
import { variable } from "./settings.ts";

const PLUMBING = [".git", ".bare"]; // a common directory's own name says nothing about the project

/** Return the project of this folder; "" in the root and in the user's home. COFIO_PROJECT overrides it. */
export async function projectOf(folder: string): Promise<string> {
  const configured = variable("COFIO_PROJECT");
  if (configured || !isAbsolute(folder) || folder.includes("\0")) return configured;
  const [here, user] = await Promise.all([real(folder), real(homedir())]);
  if (here === user || dirname(here) === here) return "";
  return (await repository(here, user)) || here;
}

/** Return the source of memories from a project: "openclaw/web" for /home/ann/web. */
export function sourceOf(project: string): string {
  const parts = project.split("/").filter(Boolean);
  if (parts.length > 1 && PLUMBING.includes(parts.at(-1) ?? "")) parts.pop();
  const name = (parts.at(-1) ?? "").replace(/(?<=.)\.git$/, "");
  return name ? `openclaw/${name}` : "openclaw";
}

/** Return the main tree of the repository around a folder; "" if there is none below the home or the root. */
async function repository(start: string, user: string): Promise<string> {
  for (let here = start; here !== user && dirname(here) !== here; here = dirname(here)) {
    if (await isGit(join(here, ".git"))) return here;
    const outer = (await followGitFile(here)) || ((await isGit(here)) ? await nameFromGitFolder(here) : "");
    if (outer) return outer;
  }
  return "";
}

/** Return the repository that a tree's `.git` file points to; "" if there is none. */
async function followGitFile(tree: string): Promise<string> {
  const pointer = await read(join(tree, ".git"));
  if (!pointer.startsWith("gitdir:")) return "";
  const folder = await real(resolve(tree, pointer.slice("gitdir:".length).trim()));
  const common = (await read(join(folder, "commondir"))).trim(); // of a linked worktree only
  const shared = common ? await real(resolve(folder, common)) : folder;
  return (await isGit(shared)) ? nameFromGitFolder(shared) : "";
}

/** Return the main tree of a common directory: its parent, the one in its config (for a submodule), or itself. */
async function nameFromGitFolder(common: string): Promise<string> {
  if (common.endsWith("/.git")) return dirname(common);
  const worktree = /^\s*worktree\s*=\s*(.*)$/im.exec(await read(join(common, "config")))?.[1];
  return worktree === undefined ? common : real(resolve(common, worktree.trim().replace(/^"|"$/g, "")));
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
