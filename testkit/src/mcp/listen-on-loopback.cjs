// Keeps every TCP server of this process on the loopback interface: who names no address gets 127.0.0.1, not all
// interfaces. Loaded by `node --require`.
//
// It must not be done by naming a host to `listen`: a name is looked up first, and `server.address()`, which some
// read at once, would have no answer yet. `_listen2` is what `listen` calls in the end.
const { Server } = require('node:net');

const listen = Server.prototype._listen2;

Server.prototype._listen2 = function (address, port, addressType, backlog, fd, flags) {
  const isPort = typeof port === 'number' && port >= 0 && !(fd >= 0);
  if (isPort && (address == null || address === '::' || address === '0.0.0.0')) {
    return listen.call(this, '127.0.0.1', port, 4, backlog, fd, flags);
  }
  return listen.call(this, address, port, addressType, backlog, fd, flags);
};
