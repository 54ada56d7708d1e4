package scriptmodel

import (
	"os"
	"path/filepath"
	"strings"
)

// ProviderID is the provider under which [OpenCodeConfig] makes a model server known to OpenCode, so that a model is
// called, for example, scripted/agent.
const ProviderID = "scripted"

// The names of the models. They all answer from the same handler; a script tells them apart by name.
const (
	// ModelAgent is the default model of the sessions.
	ModelAgent = "agent"
	// ModelAgent2 is a second one, for tests of several models and of limits per model.
	ModelAgent2 = "agent-2"
	// ModelLedger is meant for the two ledgers.
	ModelLedger = "ledger"
)

// Config is a configuration of OpenCode in which the model server at url (see [Server.URL]) is the only provider. The
// models have small made-up prices, 1 and 2 dollars per million tokens, so that cost is never zero by accident. Every
// permission is given: no person is there to ask.
func Config(url string) map[string]any {
	models := make(map[string]any)
	for _, name := range []string{ModelAgent, ModelAgent2, ModelLedger} {
		models[name] = map[string]any{
			"name":      name,
			"tool_call": true,
			"cost":      map[string]any{"input": 1, "output": 2},
			"limit":     map[string]any{"context": 200_000, "output": 8_000},
		}
	}
	return map[string]any{
		"$schema":           "https://opencode.ai/config.json",
		"autoupdate":        false,
		"share":             "disabled",
		"permission":        "allow",
		"model":             ProviderID + "/" + ModelAgent,
		"small_model":       ProviderID + "/" + ModelAgent,
		"enabled_providers": []string{ProviderID},
		"provider": map[string]any{
			ProviderID: map[string]any{
				"name":    "Scripted",
				"npm":     "@ai-sdk/openai-compatible", // bundled with OpenCode: nothing is downloaded
				"options": map[string]any{"baseURL": url, "apiKey": "scripted"},
				"models":  models,
			},
		},
	}
}

// OpenCodeConfig is [Config] for the environment variable OPENCODE_CONFIG_CONTENT.
func OpenCodeConfig(url string) string { return string(marshal(Config(url))) }

// OpenCodeEnv returns environ (usually [os.Environ]) changed so that an OpenCode started with it talks to nobody but
// the model server at url and leaves everything that it writes under home. Settings of OpenCode and keys of providers
// in environ are dropped, as is what ties git to another repository.
//
// The configuration in it is not optional: OpenCode 1.18.33 without any provider turns to a free model hosted by its
// makers, and would send them the prompts.
//
// It writes an empty catalogue of models into home. OpenCode carries one of thousands, which it decodes again for each
// project that it opens: a second of a processor (measured), for models that enabled_providers hides anyway.
func OpenCodeEnv(environ []string, home, url string) []string {
	catalogue := filepath.Join(home, "models.json")
	if os.MkdirAll(home, 0o700) == nil {
		_ = os.WriteFile(catalogue, []byte("{}\n"), 0o600) // a file that is missing costs the second, and nothing else
	}
	var env []string
	for _, entry := range environ {
		if name, _, _ := strings.Cut(entry, "="); !foreign(name) {
			env = append(env, entry)
		}
	}
	return append(env,
		"HOME="+home,
		"TMPDIR="+home, // OpenCode unpacks 5 MB libraries into it and leaves them there
		"XDG_DATA_HOME="+filepath.Join(home, "data"),
		"XDG_CONFIG_HOME="+filepath.Join(home, "config"),
		"XDG_STATE_HOME="+filepath.Join(home, "state"),
		"XDG_CACHE_HOME="+filepath.Join(home, "cache"),
		"OPENCODE_CONFIG_CONTENT="+OpenCodeConfig(url),
		"OPENCODE_DISABLE_AUTOUPDATE=1",
		"OPENCODE_DISABLE_MODELS_FETCH=1",
		"OPENCODE_MODELS_PATH="+catalogue,
		"OPENCODE_DISABLE_LSP_DOWNLOAD=1",
		// OpenCode 1.18.33 installs its plugin SDK with npm into a fresh configuration directory, whatever the
		// switches above say, and works without it when that fails.
		"npm_config_offline=true",
	)
}

// foreign reports whether the environment variable would tie an OpenCode to something outside its home and its working
// directory. "opencode run" (1.18.33) works in PWD when that is set, whatever directory it was really started in, and
// os/exec does not correct PWD in an explicit environment. GIT_DIR and its kind are set while a git hook runs: with
// them, an agent's commit would land in the repository of the hook.
func foreign(name string) bool {
	switch name {
	case "HOME", "PWD", "OLDPWD", "OPENAI_BASE_URL", "npm_config_offline":
		return true
	}
	return strings.HasSuffix(name, "_API_KEY") || strings.HasPrefix(name, "OPENCODE") ||
		strings.HasPrefix(name, "XDG_") || strings.HasPrefix(name, "GIT_")
}
