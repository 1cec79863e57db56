// Every action, storage key and shared constant of the extension, in one place.
//
// A content script is no module, so this file is none either: it defines one object, which the manifest loads before
// content.js and which pages get by importing the file. What the package itself stores is named in its rules.

globalThis.synclineNames = Object.freeze({
  /** The port on which a page asks the coordinator for the control surface. */
  OPEN_CONTROL: "openControl",
  /** Message of a frame to the content script that made it, with the frame's `token`; answered with `true`. */
  SURFACE_READY: "surfaceReady",

  /** The settings that every context follows; written by the package alone. */
  SETTINGS_KEY: "syncSettings",
  /** How the runtime surface lies on a page: `{ collapsed, corner }`. */
  PLACE_KEY: "surfacePlace",
  /** Where the user's node is: an http or https address. */
  NODE_ADDRESS_KEY: "nodeAddress",

  /** In the order in which the surface goes around the window. */
  CORNERS: Object.freeze(["bottom-right", "bottom-left", "top-left", "top-right"]),
  /** The version of what an entry of the checklist looks like. */
  SCHEMA_VERSION: 1,
});
