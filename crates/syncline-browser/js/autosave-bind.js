// Binds an editor to a document that saves itself.
//
// Guarantees: the editor shows what is stored before it can be typed into, and each text that comes from elsewhere; it is
// read-only unless this tab holds the project for sure, in the very moment before a character goes in; the caret stays at its
// place in the text where that is still there.

/**
 * `target`: a textarea, an input, or `{ read(), write(text), setReadOnly(isReadOnly), onInput(listener) }`, whose onInput()
 * returns what ends it. `user`: `text`, `isWritable`, `change(text)`, `subscribe(listener)`, `close()`.
 */
export function bindEditor(target, user) {
  const editor = isElement(target) ? elementEditor(target, () => user.isWritable) : target;
  const take = () => {
    const { text } = user;
    if (editor.read() !== text) editor.write(text);
  };
  const follow = ({ adopted } = {}) => {
    if (adopted) take();
    editor.setReadOnly(!user.isWritable);
  };
  editor.setReadOnly(true);
  if (user.isOpen) follow({ adopted: true });
  const subscription = user.subscribe(follow);
  const unlisten = editor.onInput(() => {
    // Refused: what was typed is not in the document, so it must not stand in the editor.
    if (!user.change(editor.read())) take();
    editor.setReadOnly(!user.isWritable);
  });
  return (isOver) => {
    subscription.unsubscribe();
    unlisten?.();
    user.close();
    // What is typed from now on would be stored by nobody.
    if (isOver) editor.setReadOnly(true);
  };
}

export function isEditor(target) {
  return isElement(target) || ["read", "write", "setReadOnly", "onInput"].every((name) => typeof target?.[name] === "function");
}

function isElement(target) {
  return typeof HTMLElement !== "undefined" && target instanceof HTMLElement && "value" in target && "readOnly" in target;
}

function elementEditor(element, isWritable) {
  return {
    read: () => element.value,
    write: (text) => replace(element, text),
    setReadOnly: (isReadOnly) => {
      if (element.readOnly !== isReadOnly) element.readOnly = isReadOnly;
    },
    onInput(listener) {
      // A tab that stood still without notice finds out here, before the character is in the text.
      const guard = (event) => {
        if (isWritable()) return;
        event.preventDefault();
        element.readOnly = true;
      };
      element.addEventListener("beforeinput", guard);
      element.addEventListener("input", listener);
      return () => {
        element.removeEventListener("beforeinput", guard);
        element.removeEventListener("input", listener);
      };
    },
  };
}

function replace(element, text) {
  const { value, selectionStart, selectionEnd, selectionDirection, scrollTop } = element;
  const hasCaret = element.ownerDocument.activeElement === element && selectionStart !== null;
  element.value = text;
  if (hasCaret) element.setSelectionRange(moved(selectionStart, value, text), moved(selectionEnd, value, text), selectionDirection);
  element.scrollTop = scrollTop;
}

// Where a place in a text is after a part of the text was replaced.
function moved(place, before, after) {
  const most = Math.min(before.length, after.length);
  let head = 0;
  while (head < most && before[head] === after[head]) head += 1;
  if (place <= head) return place;
  let tail = 0;
  while (tail < most - head && before[before.length - 1 - tail] === after[after.length - 1 - tail]) tail += 1;
  return place >= before.length - tail ? place + after.length - before.length : Math.min(place, after.length - tail);
}
