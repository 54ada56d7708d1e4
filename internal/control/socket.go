package control

// SocketName is the socket's name in the state directory.
const SocketName = "manager.sock"
