package auth

// CertificateUser is the user that a verified client certificate stands for: the one
// whose name is, byte for byte, one of the certificate's names (SAN). Where the client
// asks for a name it must be among them; where it doesn't, exactly one of them must be
// a user's. Errors are ErrDenied and ErrLater.
func CertificateUser(asked string, names []string, find Find) (User, error) {
	var found []User
	seen := make(map[string]bool)
	for _, raw := range names {
		name, err := Name(raw)
		if err != nil || name != raw || seen[name] || asked != "" && asked != name {
			continue
		}
		seen[name] = true
		u, err := find(name)
		if err != nil {
			return User{}, later(err)
		}
		if u.Exists {
			found = append(found, u)
		}
	}
	switch {
	case len(found) == 1:
		return found[0], nil
	case len(found) > 1:
		return User{}, denied("the certificate has the names of %d users, and the client doesn't say which it is", len(found))
	case asked != "":
		return User{}, denied("%.300q isn't a name in the certificate that is a user's", asked)
	}
	return User{}, denied("no name in the certificate is a user's")
}
