package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/oncemq/oncemq/internal/admin"
	"github.com/oncemq/oncemq/internal/auth"
	"github.com/oncemq/oncemq/internal/config"
)

// userFlags are what the user commands were given.
type userFlags struct {
	admin        string
	passwordFile string
	noPassword   bool
	json         bool
}

func userCommand() *cobra.Command {
	var f userFlags
	c := &cobra.Command{
		Use:   "user",
		Short: "Make, list and delete users",
		Long: `Make, list and delete the users of a cluster, through the admin API of any of its nodes.

A password is asked for on the terminal, or read from a file or standard input, up to
the first line break; never from the command line, which others can see. What is kept
of it can only be used to check it.`,
		Args: noArgs,
		RunE: func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	c.PersistentFlags().StringVar(&f.admin, "admin", config.DefaultAdmin, "`ADDR` of the admin API of a node")
	list := &cobra.Command{
		Use: "list", Short: "List the users", Args: noArgs,
		RunE: func(c *cobra.Command, _ []string) error { return listUsers(c, f) },
	}
	list.Flags().BoolVar(&f.json, "json", false, "as JSON")
	add := &cobra.Command{
		Use: "add NAME", Short: "Make a user", Args: oneName,
		RunE: func(c *cobra.Command, args []string) error {
			if f.noPassword && f.passwordFile != "" {
				return fmt.Errorf("%w: --no-password and --password-file exclude each other", config.ErrUsage)
			}
			return putUser(c, f, http.MethodPut, args[0], "", "was made")
		},
	}
	add.Flags().BoolVar(&f.noPassword, "no-password", false, "no password: the user can only come with a TLS certificate that has NAME")
	passwd := &cobra.Command{
		Use: "passwd NAME", Short: "Change a user's password", Args: oneName,
		RunE: func(c *cobra.Command, args []string) error {
			return putUser(c, f, http.MethodPut, args[0], "/password", "has a new password; connections that are open stay")
		},
	}
	for _, x := range []*cobra.Command{add, passwd} {
		x.Flags().StringVar(&f.passwordFile, "password-file", "", "`FILE` whose first line is the password; - is standard input (default: the terminal)")
	}
	del := &cobra.Command{
		Use: "delete NAME", Short: "Delete a user and end its connections", Args: oneName,
		RunE: func(c *cobra.Command, args []string) error {
			if err := callAdmin(c.Context(), f.admin, http.MethodDelete, "/api/v1/users/"+url.PathEscape(args[0]), nil, nil); err != nil {
				return err
			}
			_, err := fmt.Fprintf(c.OutOrStdout(), "user %s was deleted, its connections were ended\n", args[0])
			return err
		},
	}
	c.AddCommand(add, list, passwd, del)
	return c
}

// oneName wants one argument.
func oneName(c *cobra.Command, args []string) error {
	if len(args) != 1 {
		return fmt.Errorf("%w: %s takes one NAME, and no password: that is asked for", config.ErrUsage, c.CommandPath())
	}
	return nil
}

func listUsers(c *cobra.Command, f userFlags) error {
	var answer struct{ Users []admin.User }
	if err := callAdmin(c.Context(), f.admin, http.MethodGet, "/api/v1/users", nil, &answer); err != nil {
		return err
	}
	if f.json {
		return json.NewEncoder(c.OutOrStdout()).Encode(map[string]any{"users": answer.Users})
	}
	w := tabwriter.NewWriter(c.OutOrStdout(), 0, 8, 2, ' ', 0)
	fmt.Fprintln(w, "NAME\tPASSWORD\tCHANGED")
	for _, u := range answer.Users {
		has := "yes"
		if !u.Password {
			has = "no"
		}
		fmt.Fprintf(w, "%s\t%s\t%s\n", u.Name, has, u.Changed.Local().Format(time.DateTime))
	}
	return w.Flush()
}

// putUser reads the password and makes or changes a user.
func putUser(c *cobra.Command, f userFlags, method, name, what, done string) error {
	body := map[string]*string{"password": nil}
	if !f.noPassword {
		p, err := readPassword(c.Context(), f.passwordFile, c.InOrStdin(), name)
		if err != nil {
			return err
		}
		text := string(p)
		body["password"] = &text
	}
	if err := callAdmin(c.Context(), f.admin, method, "/api/v1/users/"+url.PathEscape(name)+what, body, nil); err != nil {
		return err
	}
	_, err := fmt.Fprintf(c.OutOrStdout(), "user %s %s\n", name, done)
	return err
}

// readPassword reads a password from file, from stdin where file is -, or from the
// terminal where it is empty.
func readPassword(ctx context.Context, file string, stdin io.Reader, name string) (auth.Password, error) {
	switch file {
	case "":
		return promptTwice(ctx, terminal, name)
	case "-":
		return firstLine(stdin, "standard input")
	}
	r, err := os.Open(file)
	if err != nil {
		return "", fmt.Errorf("%w: --password-file: %w", config.ErrUsage, err)
	}
	defer r.Close()
	return firstLine(r, file)
}

// firstLine is the text up to the first line break.
func firstLine(r io.Reader, from string) (auth.Password, error) {
	text, err := io.ReadAll(io.LimitReader(r, 4<<10))
	if err != nil {
		return "", fmt.Errorf("reading a password from %s: %w", from, err)
	}
	line, _, _ := strings.Cut(string(text), "\n")
	if line = strings.TrimSuffix(line, "\r"); line == "" {
		return "", fmt.Errorf("%w: the first line of %s is empty: it has to be the password", config.ErrUsage, from)
	}
	return auth.Password(line), nil
}

// adminTimeout bounds a call of the admin API.
const adminTimeout = 15 * time.Second

// callAdmin makes one request to the admin API that --admin names; the error says what it said.
func callAdmin(ctx context.Context, addr, method, path string, body, answer any) error {
	if err := config.Loopback("admin", addr); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, adminTimeout)
	defer cancel()
	return adminError(admin.Call(ctx, addr, method, path, body, answer))
}
