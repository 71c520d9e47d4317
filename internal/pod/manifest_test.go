package pod

import (
	"errors"
	"io"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"ropeway/internal/testenv"
)

// TestManifest proves that the manifest for Kubernetes in docs/pod.md is valid YAML and consistent, that the key in it
// is refused, and that the pod file can be read with a key that has the permissions of the manifest.
func TestManifest(t *testing.T) {
	page, err := os.ReadFile("../../docs/pod.md")
	testenv.OK(t, err)
	_, text, _ := strings.Cut(string(page), "## In Kubernetes")
	_, text, _ = strings.Cut(text, "```yaml\n")
	text, _, ok := strings.Cut(text, "```")
	if !ok {
		t.Fatal("there is no manifest")
	}
	type volume struct {
		Name   string
		Secret struct {
			SecretName  string `yaml:"secretName"`
			DefaultMode uint32 `yaml:"defaultMode"`
		}
	}
	type container struct {
		Command []string
		Env     []struct{ Name, Value string }
		Mounts  []struct {
			Name      string
			MountPath string `yaml:"mountPath"`
		} `yaml:"volumeMounts"`
	}
	type object struct {
		APIVersion string `yaml:"apiVersion"`
		Kind       string
		Metadata   struct{ Name string }
		StringData map[string]string `yaml:"stringData"`
		Spec       struct {
			Replicas int
			Selector struct {
				MatchLabels map[string]string `yaml:"matchLabels"`
			}
			Template struct {
				Metadata struct{ Labels map[string]string }
				Spec     struct {
					SecurityContext struct {
						FSGroup int `yaml:"fsGroup"`
					} `yaml:"securityContext"`
					Containers []container
					Volumes    []volume
				}
			}
			PodSelector struct {
				MatchLabels map[string]string `yaml:"matchLabels"`
			} `yaml:"podSelector"`
			Ingress []struct {
				Ports []struct {
					Port    uint16
					EndPort uint16 `yaml:"endPort"`
				}
			}
		}
	}
	kinds := map[string]object{}
	for d := yaml.NewDecoder(strings.NewReader(text)); ; {
		var o object
		if err := d.Decode(&o); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		kinds[o.APIVersion+" "+o.Kind] = o
	}
	secret, set, policy := kinds["v1 Secret"], kinds["apps/v1 StatefulSet"], kinds["networking.k8s.io/v1 NetworkPolicy"]
	pods := set.Spec.Template
	if len(kinds) != 3 || len(pods.Spec.Containers) != 1 || len(pods.Spec.Volumes) != 1 {
		t.Fatalf("objects %v", kinds)
	}
	c, v := pods.Spec.Containers[0], pods.Spec.Volumes[0]
	if v.Secret.SecretName != secret.Metadata.Name || len(c.Mounts) != 1 || c.Mounts[0].Name != v.Name {
		t.Errorf("the volume %+v is not the secret %q, or not mounted: %+v", v, secret.Metadata.Name, c.Mounts)
	}
	if app := set.Spec.Selector.MatchLabels["app"]; app == "" || app != pods.Metadata.Labels["app"] ||
		app != policy.Spec.PodSelector.MatchLabels["app"] {
		t.Errorf("the set selects %v, the policy %v, the pods have %v", set.Spec.Selector.MatchLabels,
			policy.Spec.PodSelector.MatchLabels, pods.Metadata.Labels)
	}
	if v.Secret.DefaultMode&0o040 != 0 && pods.Spec.SecurityContext.FSGroup == 0 {
		t.Error("the key is a group's that the container is not in")
	}
	env := map[string]string{}
	for _, e := range c.Env {
		env[e.Name] = e.Value
	}
	if env["ROPEWAY_POD"] != path.Join(c.Mounts[0].MountPath, "pod.yaml") || env["ROPEWAY_PRODUCT"] != "A3" {
		t.Errorf("the environment is %v", env)
	}
	dir := t.TempDir()
	put := func(name, text string) {
		name = filepath.Join(dir, name)
		os.Remove(name) //nolint:errcheck // it may not be there
		testenv.OK(t, os.WriteFile(name, []byte(text), os.FileMode(v.Secret.DefaultMode)))
	}
	for name, text := range secret.StringData {
		put(name, text)
	}
	file := filepath.Join(dir, "pod.yaml")
	if _, err := Read(file, "1"); err == nil || !strings.Contains(err.Error(), "ropeway pod init") {
		t.Errorf("the key in the manifest: %v", err)
	}
	put("pod.key", strings.Repeat("0f", 32))
	config, err := Read(file, "1")
	if err != nil || len(config.Servers) != set.Spec.Replicas {
		t.Fatalf("the pod file in the secret: %+v, %v", config, err)
	}
	for _, s := range config.Servers {
		if p := policy.Spec.Ingress[0].Ports[0]; s.Ports != [2]uint16{p.Port, p.EndPort} {
			t.Errorf("server %d has ports %v, the policy opens %+v", s.ID, s.Ports, p)
		}
	}
	put("pod.key", publishedKey+"\n")
	if _, err := Read(file, "1"); err == nil || !strings.Contains(err.Error(), "everybody knows this key") {
		t.Errorf("the key that was in the manifest: %v", err)
	}
}

// TestSecurityNamesTests proves that the tests exist that SECURITY.md names for pods.
func TestSecurityNamesTests(t *testing.T) {
	page, err := os.ReadFile("../../SECURITY.md")
	testenv.OK(t, err)
	_, text, _ := strings.Cut(string(page), "**Pods.**")
	text, _, ok := strings.Cut(text, "\n**")
	names := regexp.MustCompile("`((?:Test|Fuzz)[A-Za-z]+)`").FindAllStringSubmatch(text, -1)
	if !ok || len(names) < 20 {
		t.Fatalf("it names %v", names)
	}
	files, err := filepath.Glob("*_test.go")
	testenv.OK(t, err)
	var all strings.Builder
	for _, f := range files {
		b, err := os.ReadFile(f)
		testenv.OK(t, err)
		all.Write(b)
	}
	for _, name := range names {
		if !strings.Contains(all.String(), "\nfunc "+name[1]+"(") {
			t.Errorf("there is no %s", name[1])
		}
	}
}
