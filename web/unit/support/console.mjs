// Lets scripts of the apps' pages find the console's as they do in a browser: at `/assets/`.

import { register } from "node:module";

const folder = new URL("../../console", import.meta.url).href;
const hooks = `export const resolve = (name, context, next) => next(name.startsWith("/assets/") ? ${JSON.stringify(folder)} + name : name, context);`;
register(`data:text/javascript,${encodeURIComponent(hooks)}`);
