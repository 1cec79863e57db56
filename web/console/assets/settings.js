// What this node runs with.

import { ask } from "./api.js";
import { openPage } from "./app.js";
import { at, say } from "./dom.js";

openPage({
  async read() {
    const { toml } = await ask("/api/settings");
    say(at("settings-text"), toml);
  },
});
