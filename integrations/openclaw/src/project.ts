/**
 * The project of a folder: its repository's main working tree, so that all worktrees are one project; outside of git
 * the folder itself. The hooks of the other clients have the same rule, and a test compares the two. It imports nothing
 * of the plugin, since the skill has a copy.
 */

import { readFile, realpath, stat } from "node:fs/promises";
import { homedir } from "node:os";
import { dirname, isAbsolute, join, resolve } from "node:path";

const PLUMBING = [".git", ".bare"]; // a common directory's own name says nothing about the project

/** Return the project of this folder; "" in the root and in the user's home. COFIO_PROJECT overrides it. */
export async function projectOf(folder: string): Promise<string> {
  const configured = (process.env["COFIO_PROJECT"] ?? "").trim();
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

/**
 * Return the main tree of the repository around a folder; "" if there is none below the home or the root. A bare
 * repository inside another one is ignored: a clone may contain it, and its config would name any folder.
 */
async function repository(start: string, user: string): Promise<string> {
  let bare = "";
  for (let here = start; here !== user && dirname(here) !== here; here = dirname(here)) {
    if (await isGit(join(here, ".git"))) return here;
    const target = await followGitFile(here);
    if (target) return target;
    if (!(await isGit(here))) continue;
    const tree = await nameFromGitFolder(here);
    if (tree !== here) return tree;
    bare = here;
  }
  return bare;
}

/**
 * Return the project of a tree whose `.git` is a file; "" if that names no repository. The file may have been unpacked
 * with the folder, so the repository must name the tree too; else the tree is a project of its own.
 */
async function followGitFile(tree: string): Promise<string> {
  const folder = await readPointer(tree);
  if (!folder) return "";
  const common = (await read(join(folder, "commondir"))).trim(); // of a linked worktree only
  const shared = common ? await real(resolve(folder, common)) : folder;
  if (!(await isGit(shared))) return "";
  if (!common) return dirname(folder) === tree ? nameFromGitFolder(shared) : tree; // such as ./.bare
  const back = await real(resolve(folder, (await read(join(folder, "gitdir"))).trim()));
  const isLinked = dirname(folder) === join(shared, "worktrees") && back === join(tree, ".git");
  return isLinked ? nameFromGitFolder(shared) : tree;
}

/** Return the folder that a `.git` file names; "" if it names none. */
async function readPointer(tree: string): Promise<string> {
  const pointer = await read(join(tree, ".git"));
  return pointer.startsWith("gitdir:") ? real(resolve(tree, pointer.slice("gitdir:".length).trim())) : "";
}

/** Return the main tree of a common directory: its parent, `core.worktree` if that points back, or itself. */
async function nameFromGitFolder(common: string): Promise<string> {
  if (common.endsWith("/.git")) return dirname(common);
  const settings = (await read(join(common, "config"))) + "\n" + (await read(join(common, "config.worktree")));
  for (const [, worktree = ""] of settings.matchAll(/^[ \t]*worktree[ \t]*=(.*)$/gim)) {
    const tree = await real(resolve(common, worktree.trim().replace(/^"|"$/g, "")));
    if ((await readPointer(tree)) === common) return tree; // as in submodules
  }
  return common;
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
