package node

// The shares of the open files and sockets that the process may have: half is for
// clients, an eighth for the admin port. The rest stays for the log, the state and the
// peers, which must not fail for want of one: a failed write ends the node.
const (
	clientShare = 2
	adminShare  = 8
)

// The bounds where descriptors are plenty.
const (
	maxClients = 10_000
	maxAdmins  = 256
)

// connections is how many clients and how many callers of the admin port may be
// connected at a time.
func connections(descriptors int) (clients, admins int) {
	return max(1, min(maxClients, descriptors/clientShare)), max(1, min(maxAdmins, descriptors/adminShare))
}
