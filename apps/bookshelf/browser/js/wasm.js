// What bookshelf/ uses of the platform. A node serves that folder inside the platform's own package, where `../wasm.js` is the
// platform's file itself; in this package, which npm installs, this file stands in its place.

export * from "syncline/wasm";
