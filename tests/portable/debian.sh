#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Runs commands on a bare Debian, like a new user's. debootstrap makes it, without NCCL. The script copies the last
# commit of this clone (or a tarball) there, and runs the commands first as root, which installs packages, then as an
# ordinary user.
#   tests/portable/debian.sh [--tarball FILE] [--put FILE] [--only root|user] [SUITE] [COMMAND...]
# The default SUITE is bookworm (Debian 12). A COMMAND is a line for the shell; the default is ./quickstart demo and
# check, on other suites ./quickstart build and demo. --put copies another file or folder into the project. Needs root;
# takes 2 GiB in TMPDIR while it runs. Mounts and processes live in separate namespaces, which end with the script.
set -eu
unset CDPATH
say() { printf '\n== %s\n' "$*"; }
die() { printf 'debian.sh: %s\n' "$*" >&2; exit 2; }
top=$(cd "$(dirname "$0")/../.." && pwd)

# ---- inside of the namespaces: inside FOLDER SUITE USERS COMMAND... ----

# as USER LINE: runs a line in that user's copy of the project, with the environment of a login.
as()
{
  case $1 in
    root) id=0:0 home=/root path=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin ;;
    user) id=1000:1000 home=/home/user path=/usr/local/bin:/usr/bin:/bin ;;
  esac
  # shellcheck disable=SC2016 # for that shell
  chroot --userspec="$id" --groups='' "$folder/root" /usr/bin/env -i HOME="$home" USER="$1" LANG=C.UTF-8 \
    TERM="${TERM:-dumb}" PATH="$path" sh -c 'cd "$HOME/tagc" && eval "$1"' sh "$2"
}

# attempt USER LINE: does the same, and adds a line with its time to the summary.
attempt()
{
  say "$suite, $1: $2"
  begin=$(date +%s) verdict=well
  as "$1" "$2" || verdict="FAILED ($?)"
  printf '%-9s %-5s %-9s %5d s  %s\n' "$suite" "$1" "$verdict" "$(($(date +%s) - begin))" "$2" >>"$folder/summary"
}

inside()
{
  folder=$1 suite=$2 users=$3
  shift 3
  say "debootstrap $suite: some minutes"
  debootstrap --variant=minbase "$suite" "$folder/root" >"$folder/debootstrap.log" 2>&1 || {
    tail -n 5 "$folder/debootstrap.log" >&2
    die "debootstrap cannot make a $suite here"
  }
  # buildah wants the root folder to be a mount.
  mount --bind "$folder/root" "$folder/root"
  mount -t proc proc "$folder/root/proc"
  mount -t sysfs -o ro sysfs "$folder/root/sys"
  mount -t tmpfs -o mode=1777 tmpfs "$folder/root/dev/shm"
  mount -t devpts -o newinstance,ptmxmode=0666 devpts "$folder/root/dev/pts"
  cp /etc/resolv.conf "$folder/root/etc/"
  mkdir "$folder/root/home/user"
  printf 'user:x:1000:1000::/home/user:/bin/sh\n' >>"$folder/root/etc/passwd"
  printf 'user:x:1000:\n' >>"$folder/root/etc/group"
  for home in root home/user; do
    cp -a "$folder/copy" "$folder/root/$home/tagc"
  done
  chown -R 0:0 "$folder/root/root"
  chown -R 1000:1000 "$folder/root/home/user"
  ! chroot "$folder/root" ldconfig -p | grep libnccl || die "an NCCL is known to ldconfig there"
  case $users in *user*)
    say "$suite, user, nothing is installed: quickstart says what is missing, and stops"
    ! as user './quickstart build' || die "quickstart built without a compiler"
  esac
  for user in $users; do
    for line; do
      attempt "$user" "$line"
    done
  done
}

if [ "${1-}" = inside ]; then
  shift
  inside "$@"
  exit
fi

# ---- outside ----
tarball='' put='' users="root user"
while [ $# -gt 0 ]; do
  case $1 in
    --tarball) tarball=$(realpath -e "${2?--tarball needs a file}") && shift 2 ;;
    --put) file=$(realpath -e "${2?--put needs a file}") && put="$put$file
" && shift 2 ;;
    --only) users=${2?--only needs root or user} && shift 2 ;;
    -*) die "'$1' is not an option: --tarball, --put or --only" ;;
    *) break ;;
  esac
done
suite=bookworm
case ${1-} in *[!a-z]* | '') ;; *) suite=$1 && shift ;; esac
[ $# -gt 0 ] || case $suite in
  bookworm) set -- './quickstart demo' './quickstart check' ;;
  *) set -- './quickstart build' './quickstart demo' ;;
esac
[ "$(id -u)" = 0 ] || die "needs root: debootstrap makes device nodes, and changes its root folder"
command -v debootstrap >/dev/null || die "needs debootstrap (Debian: apt-get install debootstrap)"
unshare --mount --pid --fork true 2>/dev/null || die "this machine lets nobody have namespaces of mounts and processes"
[ -n "$tarball" ] || git -C "$top" rev-parse --verify -q HEAD >/dev/null || die "this is no clone: give it a --tarball FILE"

folder=$(mktemp -d "${TMPDIR:-/tmp}/tagc-debian.XXXXXX") child=''
clean()
{
  trap '' INT TERM HUP
  [ -z "$child" ] || kill -KILL "$child" 2>/dev/null || true
  wait
  rm -rf --one-file-system "$folder"
}
trap clean EXIT
trap 'exit 130' INT TERM HUP
if [ -n "$tarball" ]; then
  mkdir "$folder/copy"
  tar -xf "$tarball" -C "$folder/copy" --strip-components=1
else
  [ -z "$(git -C "$top" status --porcelain)" ] || say "what is not committed stays behind"
  git clone --quiet --no-hardlinks "$top" "$folder/copy"
fi
printf '%s' "$put" | while IFS= read -r file; do cp -R "$file" "$folder/copy/"; done
# In the background, so the script handles a signal at once.
unshare --mount --pid --fork --kill-child --mount-proc "$0" inside "$folder" "$suite" "$users" "$@" &
child=$!
wait "$child" || { child='' && exit 1; }
child=''
say "summary"
cat "$folder/summary"
! grep -q FAILED "$folder/summary"
