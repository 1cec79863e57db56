// Every action and storage key of the extension, in one place.

/** Asks the coordinator to open the control surface (the options page). */
export const OPEN_CONTROL = "openControl";

/** Where the user's node is: an http or https address. */
export const NODE_ADDRESS = "nodeAddress";
