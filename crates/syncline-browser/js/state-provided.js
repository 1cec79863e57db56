// What state-bridge.js provides to state.js once it is there, imported by whomever: pages without a bridge do not load it.

export const provided = {};
