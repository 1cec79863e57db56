// The settings that every context of the extension follows, field by field.
//
// Their names are those under which they have always been stored (`syncSettings`), so that programs which read or write that key
// themselves go on doing so.

/** A CSS hex colour: `#rgb`, `#rgba`, `#rrggbb` or `#rrggbbaa`. */
const HEX_COLOUR = /^#([0-9a-f]{3,4}|[0-9a-f]{6}|[0-9a-f]{8})$/i;

export const settings = {
  schema: {
    /** Whether pages show the surface at all. */
    featureEnabled: { type: "boolean", default: true },
    /** On every site, or on one. */
    scopeMode: { type: "choice", choices: ["all", "specific"], default: "all" },
    /** That one: its host name. */
    scopeTargetId: { type: "string", maxLength: 256 },
    /** Its colour. */
    themeToken: { type: "string", default: "#6441a5", pattern: HEX_COLOUR, problem: "must be a hex colour such as #6441a5" },
  },
  check({ scopeMode, scopeTargetId = "" }) {
    if (scopeMode !== "specific" || scopeTargetId.trim() !== "") return [];
    return [{ field: "scopeTargetId", problem: 'is needed when scopeMode is "specific"' }];
  },
};
