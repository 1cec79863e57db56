// What state-bridge.js and state-codec.js provide to state.js once they are there, imported by whomever: pages that need neither do
// not load them.

export const provided = {};
