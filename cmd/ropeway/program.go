package main

import (
	"bufio"
	"debug/elf"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// Exit codes for programs that cannot be run, as shells have them.
const (
	exitCannotRun = 126
	exitNotFound  = 127
)

// cannotRun is a program that cannot be run; next says what to do.
func cannotRun(next, format string, args ...any) error {
	return &failure{err: fmt.Errorf(format, args...), next: next, code: exitCannotRun}
}

// findProgram is the file that a shell would run for name: with a slash it is a path, else the directories of path
// count.
func findProgram(name, path string) (string, error) {
	if strings.Contains(name, "/") {
		return name, checkFile(name)
	}
	var refused error
	for _, dir := range filepath.SplitList(path) {
		file := filepath.Join(dir, name)
		if dir == "" || dir == "." {
			file = "./" + name
		}
		err := checkFile(file)
		if err == nil {
			return file, nil
		}
		var f *failure
		if refused == nil && errors.As(err, &f) && f.code == exitCannotRun {
			refused = err
		}
	}
	if refused != nil {
		return "", refused
	}
	return "", &failure{fmt.Errorf("there is no program %q in PATH", name), "check the spelling, or give its path: ./" +
		name, exitNotFound}
}

// checkFile proves that a file exists and may be executed.
func checkFile(file string) error {
	info, err := os.Stat(file)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return &failure{fmt.Errorf("there is no program %s", file),
			"check the path; it counts from the current directory", exitNotFound}
	case err != nil:
		return cannotRun("check the permissions of the directories above it", "%v", err)
	case info.IsDir():
		return cannotRun("name a program in it", "%s is a directory", file)
	case !info.Mode().IsRegular():
		return cannotRun("name a program", "%s is not a file", file)
	case unix.Access(file, unix.X_OK) != nil:
		return cannotRun("if it is a program or a script: chmod +x "+file, "%s is not executable", file)
	}
	return nil
}

// linkage is how a program gets its libraries.
type linkage struct {
	preload bool // the loader would prefer a library of the program's own choice, so that ours has to be preloaded
	static  bool // there is no loader: no library of ours gets into it
}

// inspect looks into a program that findProgram found; the error says why our library could not be put in front.
func (a *app) inspect(file string, ours elf.Machine, path string) (linkage, error) {
	if gainsRights(file) {
		return linkage{}, cannotRun("run a copy without these rights: cp "+file+" . and name the copy",
			"%s runs with the rights of another user (setuid, setgid or capabilities), so the loader ignores our "+
				"library", file)
	}
	interpreter, argument, err := scriptOf(file)
	if err != nil {
		return linkage{}, cannotRun("make it readable: chmod +r "+file, "%v", err)
	}
	if interpreter != "" {
		preload, err := inspectScript(file, interpreter, argument, path)
		return linkage{preload: preload}, err
	}
	f, err := elf.Open(file)
	if err != nil {
		return linkage{}, cannotRun("a script begins with a line like #!/bin/sh; a program has to be one for Linux",
			"%s is neither a program nor a script", file)
	}
	defer f.Close()
	if f.Machine != ours {
		return linkage{}, cannotRun("build it for this machine, or use a toolkit that was built for "+
			machineName(f.Machine),
			"%s is a program for %s, and the toolkit is for %s", file, machineName(f.Machine), machineName(ours))
	}
	return linkage{preload: prefersOwn(f), static: loaderOf(f) == ""}, nil
}

// staticallyLinked is the refusal of a program without a loader.
func (a *app) staticallyLinked(file string) error {
	return cannotRun(`build it without -static; if it only starts other programs: eval "$(`+a.name+` run --print-env)"`,
		"%s is statically linked, so no library of ours gets into it", file)
}

// machineName is for example x86_64.
func machineName(m elf.Machine) string { return strings.ToLower(strings.TrimPrefix(m.String(), "EM_")) }

// loaderOf is the dynamic loader that a program asks for; "" if it is statically linked.
func loaderOf(f *elf.File) string {
	for _, p := range f.Progs {
		if p.Type == elf.PT_INTERP {
			text := make([]byte, p.Filesz)
			if _, err := p.ReadAt(text, 0); err == nil {
				return strings.TrimRight(string(text), "\x00")
			}
		}
	}
	return ""
}

// prefersOwn reports whether a program has a DT_RPATH, which the loader searches before LD_LIBRARY_PATH. It does not
// count where there is a DT_RUNPATH too, which is searched after it.
func prefersOwn(f *elf.File) bool {
	rpath, _ := f.DynString(elf.DT_RPATH)
	runpath, _ := f.DynString(elf.DT_RUNPATH)
	return len(rpath) > 0 && len(runpath) == 0
}

// scriptOf gives interpreter and argument of a script's first line; "" if the file is none.
func scriptOf(file string) (interpreter, argument string, err error) {
	f, err := os.Open(file)
	if err != nil {
		return "", "", err
	}
	defer f.Close()
	line, _ := bufio.NewReaderSize(f, 256).ReadSlice('\n') // the kernel reads no further either
	text, ok := strings.CutPrefix(string(line), "#!")
	if !ok {
		return "", "", nil
	}
	interpreter, argument, _ = strings.Cut(strings.Trim(text, " \t\n"), " ")
	return interpreter, strings.TrimSpace(argument), nil
}

// inspectScript looks at what runs a script, as far as it is needed: an interpreter that is missing is named, and one
// that prefers its own libraries gets ours preloaded. One that is statically linked may start programs that are not.
func inspectScript(file, interpreter, argument, path string) (preload bool, err error) {
	if strings.HasSuffix(interpreter+argument, "\r") {
		return false, cannotRun("convert it: sed -i 's/\\r$//' "+file,
			"the first line of %s ends in a carriage return, which becomes part of the interpreter's name", file)
	}
	if _, err := os.Stat(interpreter); err != nil {
		return false, cannotRun("install it, or correct the first line of the script",
			"%s asks for the interpreter %s, which is not there", file, interpreter)
	}
	if filepath.Base(interpreter) == "env" {
		for _, word := range strings.Fields(argument) {
			if strings.HasPrefix(word, "-") || strings.Contains(word, "=") {
				continue
			}
			if found, err := findProgram(word, path); err == nil {
				interpreter = found
			}
			break
		}
	}
	f, err := elf.Open(interpreter)
	if err != nil {
		return false, nil // a script itself, perhaps
	}
	defer f.Close()
	return prefersOwn(f), nil
}

// gainsRights reports whether a program gets rights that its user does not have. The loader trusts no environment then.
func gainsRights(file string) bool {
	var fsys unix.Statfs_t
	if unix.Statfs(file, &fsys) == nil && fsys.Flags&unix.ST_NOSUID != 0 {
		return false
	}
	info, err := os.Stat(file)
	if err != nil {
		return false
	}
	if of, ok := info.Sys().(*syscall.Stat_t); ok && changesUser(info.Mode(), of.Uid, of.Gid, uint32(os.Getuid()),
		uint32(os.Getgid())) {
		return true
	}
	size, err := unix.Getxattr(file, "security.capability", nil)
	return err == nil && size > 0 && os.Getuid() != 0
}

// changesUser reports whether a file with this mode and owner runs as another user or group than uid and gid.
func changesUser(mode fs.FileMode, fileUID, fileGID, uid, gid uint32) bool {
	return mode&fs.ModeSetuid != 0 && fileUID != uid || mode&fs.ModeSetgid != 0 && mode&0o010 != 0 && fileGID != gid
}
