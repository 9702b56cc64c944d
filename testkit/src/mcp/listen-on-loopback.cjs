// Keeps every TCP server of this process on the loopback interface. A server without an address listens on 127.0.0.1
// and not on all interfaces. Loaded by `node --require`.
//
// Passing a host to `listen` would not work. The host is looked up first, and `server.address()`, which some programs
// read at once, would not be known yet. `listen` finally calls `_listen2`.
const { Server } = require('node:net');

const listen = Server.prototype._listen2;

Server.prototype._listen2 = function (address, port, addressType, backlog, fd, flags) {
  const isPort = typeof port === 'number' && port >= 0 && !(fd >= 0);
  if (isPort && (address == null || address === '::' || address === '0.0.0.0')) {
    return listen.call(this, '127.0.0.1', port, 4, backlog, fd, flags);
  }
  return listen.call(this, address, port, addressType, backlog, fd, flags);
};
