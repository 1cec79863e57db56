/** What `bookshelf/` uses of the platform's package. */

export * from "syncline/wasm";
