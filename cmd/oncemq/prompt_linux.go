package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/oncemq/oncemq/internal/auth"
	"github.com/oncemq/oncemq/internal/config"
)

// terminal is the terminal of whoever runs the command, whatever its standard input is.
const terminal = "/dev/tty"

// errMistyped says that two inputs differ.
var errMistyped = errors.New("oncemq: the two passwords differ; nothing was changed")

// promptTwice asks for a new password on the terminal tty, twice, without showing it.
func promptTwice(ctx context.Context, tty, name string) (auth.Password, error) {
	t, err := os.OpenFile(tty, os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		return "", fmt.Errorf("%w: there is no terminal to ask for a password: give --password-file FILE, or - for standard input", config.ErrUsage)
	}
	defer t.Close()
	first, err := prompt(ctx, t, fmt.Sprintf("Password for %s: ", name))
	if err != nil {
		return "", err
	}
	second, err := prompt(ctx, t, "Once more: ")
	if err != nil {
		return "", err
	}
	if first != second {
		return "", errMistyped
	}
	return first, nil
}

// prompt reads a line without echo. The terminal is as before when it returns, also
// where ctx ends first.
func prompt(ctx context.Context, t *os.File, text string) (auth.Password, error) {
	raw, err := t.SyscallConn()
	if err != nil {
		return "", err
	}
	// Through raw, as Fd would make the file blocking, so that no deadline could end the read.
	var before *unix.Termios
	set := func(change func(*unix.Termios)) error {
		var fault error
		err := raw.Control(func(fd uintptr) {
			var now *unix.Termios
			if now, fault = unix.IoctlGetTermios(int(fd), unix.TCGETS); fault != nil {
				return
			}
			if before == nil {
				saved := *now
				before = &saved
			}
			change(now)
			fault = unix.IoctlSetTermios(int(fd), unix.TCSETS, now)
		})
		return errors.Join(err, fault)
	}
	if err := set(func(s *unix.Termios) { s.Lflag &^= unix.ECHO }); err != nil {
		return "", fmt.Errorf("hiding a password on %s: %w", t.Name(), err)
	}
	defer func() {
		_ = set(func(s *unix.Termios) { *s = *before })
		fmt.Fprintln(t)
	}()
	fmt.Fprint(t, text)
	defer context.AfterFunc(ctx, func() { _ = t.SetReadDeadline(time.Unix(1, 0)) })()
	line := make([]byte, 4<<10) // the most that a terminal gives as a line
	n, err := t.Read(line)
	if ctx.Err() != nil {
		return "", ctx.Err()
	}
	if err != nil {
		return "", fmt.Errorf("reading a password on %s: %w", t.Name(), err)
	}
	for n > 0 && (line[n-1] == '\n' || line[n-1] == '\r') {
		n--
	}
	return auth.Password(line[:n]), nil
}
