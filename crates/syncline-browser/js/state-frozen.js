// A map for reading: what a snapshot hands out is the same for everybody who has it.

export class FrozenMap extends Map {
  constructor(entries = []) {
    super();
    for (const [id, value] of entries) super.set(id, value);
  }

  set() {
    throw new TypeError("a snapshot cannot be changed: call put()");
  }

  delete() {
    throw new TypeError("a snapshot cannot be changed: call remove()");
  }

  clear() {
    throw new TypeError("a snapshot cannot be changed: call reset()");
  }
}

// By its owner, while nobody else has it.
export function change(map, id, value) {
  if (value === undefined) Map.prototype.delete.call(map, id);
  else Map.prototype.set.call(map, id, value);
}
