// Runs in a page whose browser has no driver that does: does what it is told over a WebSocket, and says what came of it. The page's
// address has `agent=<port>-<name of the tab>`.

const [port, tab] = (new URLSearchParams(location.search).get("agent") ?? "").split("-");
const socket = new WebSocket(`ws://127.0.0.1:${port}/${tab}`);

socket.onmessage = async ({ data }) => {
  const { call, source, args } = JSON.parse(data);
  try {
    const value = await (0, eval)(`(${source})`)(...args);
    socket.send(JSON.stringify({ call, value }));
  } catch (error) {
    socket.send(JSON.stringify({ call, error: `${/** @type {any} */ (error)?.stack ?? ""}\n${error}` }));
  }
};

export {};
