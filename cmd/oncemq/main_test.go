package main

import (
	"bytes"
	"strings"
	"testing"
)

// TestWrongUsage: exit status 2, and a message that says which value, why, what is allowed.
func TestWrongUsage(t *testing.T) {
	for _, tc := range []struct{ args, says string }{
		{"serve --listen off", `--listen "off"`},
		{"serve --listen 0.0.0.0:5672", `--listen "0.0.0.0:5672"`},
		{"serve --listen-tls 0.0.0.0:5671", `--tls-cert ""`},
		{"serve --tls-key k.pem", `--tls-key "k.pem"`},
		{"user add", "one NAME"},
		{"user add alice hunter2", "no password"},
		{"user add alice --no-password --password-file x", "exclude"},
		{"user add alice --password-file /nowhere/p", "/nowhere/p"},
		{"user add alice --password hunter2", "--password"},
		{"user list --admin 10.0.0.1:8161", `--admin "10.0.0.1:8161"`},
		{"user remove alice", `"remove"`},
		{"serve --dev --node 0", `--node "0"`},
		{"serve --dev --listen 0.0.0.0:5672", `--listen "0.0.0.0:5672"`},
		{"serve --dev --safety perhaps", `--safety "perhaps"`},
		{"serve --dev --prs 1=x", "--prs"},
		{"serve --dev now", `"now"`},
		{"demo --duration 0s", "--duration 0s"},
		{"demo --duration soon", "--duration"},
		{"demo --kill-every never", `--kill-every "never"`},
		{"demo --safety perhaps", `--safety "perhaps"`},
		{"bench send --size -1", "--size -1"},
		{"bench all --rounds 0", `--rounds "0"`},
		{"bench everything", `"everything"`},
		{"version please", `"please"`},
		{"fsck", "one DIR"},
		{"fsck /nowhere/at/all", "/nowhere/at/all"},
		{"fsck /tmp -o xml", `"xml"`},
		{"cluster init --own-ca /nowhere/ca", "/nowhere/ca"},
		{"cluster certify", `--cert ""`},
		{"cluster certify --cert c --data /nowhere/d", "/nowhere/d"},
		{"cluster certify now", `"now"`},
		{"backup make", `"make"`},
		{"backup create a b", "one FILE"},
		{"backup create - --admin 10.0.0.1:8161", `--admin "10.0.0.1:8161"`},
		{"backup create b --rate fast", `--rate "fast"`},
		{"backup create b --keep-free -1", `--keep-free "-1"`},
		{"backup create b -o xml", `--output "xml"`},
		{"backup create b --force", "--force"},
		{"backup verify", "one FILE"},
		{"backup verify a -o yaml", `--output "yaml"`},
		{"backup restore", "one FILE"},
		{"backup restore b", `--data ""`},
		{"backup restore b --data d --node 0", `--node "0"`},
		{"backup restore b --data d --node 4 --peers 1,2,3", "4"},
		{"backup restore b --data d --peers 1,2", `"1,2"`},
		{"msg export", "a QUEUE"},
		{"msg export q f g", "a QUEUE"},
		{"msg export q --after x", "--after"},
		{"msg export q --admin 10.0.0.1:8161", `--admin "10.0.0.1:8161"`},
		{"msg import", "a QUEUE"},
		{"msg import q f --after -1", "--after"},
		{"msg import q f --password-file /nowhere/p", "/nowhere/p"},
		{"msg import q f --password secret", "--password"},
		{"msg move q", `"move"`},
		{"destroy", `"destroy"`},
	} {
		var out, errs bytes.Buffer
		code := run(t.Context(), strings.Fields(tc.args), &out, &errs)
		if code != exitWrong || !strings.Contains(errs.String(), tc.says) || out.Len() > 0 {
			t.Errorf("oncemq %s: status %d, stdout %q, stderr %q; want status 2 and %s", tc.args, code, &out, &errs, tc.says)
		}
	}
}

func TestVersion(t *testing.T) {
	var out, errs bytes.Buffer
	if code := run(t.Context(), []string{"version"}, &out, &errs); code != exitOK || !strings.HasPrefix(out.String(), "oncemq ") || errs.Len() > 0 {
		t.Errorf("status %d, %q, %q", code, &out, &errs)
	}
}
