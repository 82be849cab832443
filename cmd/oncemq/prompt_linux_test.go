package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/oncemq/oncemq/internal/auth"
)

// pty makes a terminal: what is typed goes to the first, which shows what a screen would;
// the second is its name for the program.
func pty(t *testing.T) (keyboard *os.File, name string) {
	t.Helper()
	m, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Skipf("no pseudo terminals here: %v", err)
	}
	t.Cleanup(func() { m.Close() })
	raw, err := m.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	var number int
	if err := raw.Control(func(fd uintptr) {
		if err = unix.IoctlSetPointerInt(int(fd), unix.TIOCSPTLCK, 0); err == nil {
			number, err = unix.IoctlGetInt(int(fd), unix.TIOCGPTN)
		}
	}); err != nil {
		t.Skipf("no pseudo terminals here: %v", err)
	}
	return m, fmt.Sprintf("/dev/pts/%d", number)
}

// typed answers each prompt with the next line, and gives all that the screen showed.
func typed(keyboard *os.File, lines ...string) (screen chan string) {
	screen = make(chan string, 1)
	go func() {
		r, shown := bufio.NewReader(keyboard), ""
		for _, line := range lines {
			s, err := r.ReadString(' ') // "Password for x: "
			for err == nil && s[len(s)-2] != ':' {
				var more string
				more, err = r.ReadString(' ')
				s += more
			}
			shown += s
			if err != nil {
				break
			}
			keyboard.WriteString(line + "\n")
		}
		for { // until the program has closed the terminal
			b, err := r.ReadByte()
			if err != nil {
				break
			}
			shown += string(b)
		}
		screen <- shown
	}()
	return screen
}

func TestPrompt(t *testing.T) {
	for _, tc := range []struct {
		lines []string
		want  auth.Password
		err   error
	}{
		{[]string{"hunter2", "hunter2"}, "hunter2", nil},
		{[]string{"hunter2", "hunter3"}, "", errMistyped},
	} {
		keyboard, name := pty(t)
		screen := typed(keyboard, tc.lines...)
		got, err := promptTwice(t.Context(), name, "alice")
		if got != tc.want || !errors.Is(err, tc.err) {
			t.Errorf("%q: %q, %v", tc.lines, string(got), err)
		}
		if shown := <-screen; shown != "Password for alice: \r\nOnce more: \r\n" {
			t.Errorf("the screen showed %q", shown)
		}
	}
}

// TestPromptEndsWithItsContext and leaves the terminal as it was.
func TestPromptEndsWithItsContext(t *testing.T) {
	keyboard, name := pty(t)
	ctx, cancel := context.WithCancel(t.Context())
	timer := time.AfterFunc(10*time.Second, func() { keyboard.Close() })
	defer timer.Stop()
	go func() {
		b := make([]byte, 100)
		for shown := 0; shown < len("Password for alice: "); { // it waits for input now
			n, err := keyboard.Read(b)
			if err != nil {
				break
			}
			shown += n
		}
		cancel()
	}()
	tty, err := os.OpenFile(name, os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer tty.Close()
	if _, err := promptTwice(ctx, name, "alice"); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
	now, err := unix.IoctlGetTermios(int(tty.Fd()), unix.TCGETS)
	if err != nil || now.Lflag&unix.ECHO == 0 {
		t.Errorf("%v; the terminal shows nothing any more", err)
	}
}
