// @ts-check
// The types of what the server sends: entries of a chat, and their parts.

/**
 * A closed block of a text: it ends at `to`, and begins where the one before ended. Offsets are in UTF-16 units.
 * @typedef {{to: number, html?: string, code?: [number, number], lang?: string, colours?: string}} Block
 */

/**
 * A part of an entry. `kind` is text, tool, todo, question, note, file, handed, command, thought or waiting.
 * @typedef {{n: number, kind: string, raw?: string, blocks?: Block[], [name: string]: any}} Part
 */

/**
 * What is known of an entry beside its parts.
 * @typedef {{
 *   id: string, at: number, kind: "you" | "event" | "answer" | "reply",
 *   state: "sending" | "sent" | "queued" | "running" | "done" | "failed",
 *   began: number, ended: number, session: number, number: number, reason: string, source: string,
 *   branches: number, undone: boolean, replaced: boolean, delivery: number, buttons: [string, string][], about: Record<string, any>
 * }} Head
 */

/** @typedef {Head & {parts: Part[]}} Entry */

export {};
