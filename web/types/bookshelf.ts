// The bookshelf's package as its users write it, and the mistakes the compiler must catch for them.
// This file is compiled, never run: each `@ts-expect-error` fails the check if the line below it becomes legal.

import * as platform from "syncline";
import { init, openCoverCache, SynclineError, type CoverCache } from "syncline-bookshelf";

/** Whoever catches an error of the platform catches those of the bookshelf too. */
export const sameError: typeof platform.SynclineError = SynclineError;

export async function remembersCovers(): Promise<string> {
  await init(fetch("/pkg/bookshelf/syncline_covers_bg.wasm"));
  const covers: CoverCache = await openCoverCache({ onError: (error) => console.log(error.code) });
  covers.set("9784101010014", "https://example.com/cover.jpg");
  // @ts-expect-error it may not be remembered
  const url: string = covers.get("9784101010014");
  // @ts-expect-error the size is counted, not set
  covers.size = 3;
  return url;
}
