// The other limit of a page: IndexedDB and a BroadcastChannel by hand, one key, nothing kept from being lost.
export async function open() {
  const request = indexedDB.open("channel", 1);
  request.onupgradeneeded = () => request.result.createObjectStore("keys");
  await new Promise((resolve) => (request.onsuccess = resolve));
  const channel = new BroadcastChannel("channel");
  return {
    toggle(number) {
      const transaction = request.result.transaction("keys", "readwrite");
      transaction.objectStore("keys").put(number, "toggled");
      return new Promise((resolve) => {
        transaction.oncomplete = () => {
          channel.postMessage(number);
          resolve();
        };
      });
    },
    hear: (listener) => (channel.onmessage = ({ data }) => listener(data)),
  };
}
