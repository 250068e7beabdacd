/* SPDX-License-Identifier: BSD-3-Clause
 * The terminal of tagc-report --live: keys, its size, and its state before and after.
 *
 * On a terminal the screen is the alternate one, which vanishes at the end, and keys come at once. Whatever ends the
 * program, the terminal is as it was: signals set a flag, and the loop ends. Elsewhere (a file, a pipe, TERM=dumb) it
 * writes plain lines, one screen after another, and ends with the job, or when that seems to be dead.
 */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <time.h>
#include <unistd.h>

#include "env/program/terminal.h"
#include "interpose/tagc-report/live/live.h"

enum { COLUMNS = 80, ROWS = 24, WIDE = 120 };

static volatile sig_atomic_t stop_signal, resized, suspended;

static void note_signal(int number) {
  if (number == SIGWINCH)
    resized = 1;
  else if (number == SIGTSTP)
    suspended = 1;
  else
    stop_signal = number;
}

struct terminal {
  bool used, colours; /* used: stdout is one that can move its cursor */
  bool keys;          /* stdin is one, too */
  struct termios before;
};

/* Without SA_RESTART: a signal ends the wait for a key. */
static void catch_signal(int number) {
  struct sigaction action = {.sa_handler = note_signal};
  struct sigaction now;
  if (sigaction(number, NULL, &now) == 0 && now.sa_handler != SIG_IGN)
    sigaction(number, &action, NULL);
}

static void enter_screen(struct terminal *t) {
  struct termios raw;
  t->keys = t->keys && tcgetattr(STDIN_FILENO, &t->before) == 0;
  if (t->keys) {
    raw = t->before;
    raw.c_lflag &= ~(tcflag_t)(ICANON | ECHO);
    raw.c_cc[VMIN] = 1;
    raw.c_cc[VTIME] = 0;
    tcsetattr(STDIN_FILENO, TCSANOW, &raw);
  }
  if (t->used)
    fputs("\033[?1049h\033[?25l\033[2J", stdout);
}

static void leave_screen(const struct terminal *t) {
  if (t->used) {
    fputs("\033[?25h\033[?1049l", stdout);
    fflush(stdout);
  }
  if (t->keys)
    tcsetattr(STDIN_FILENO, TCSANOW, &t->before);
}

static struct terminal open_terminal(void) {
  struct terminal t = {.used = tagc_terminal_has_cursor(STDOUT_FILENO),
                       .colours = tagc_terminal_wants_colours(STDOUT_FILENO)};
  t.keys = t.used && isatty(STDIN_FILENO);
  for (size_t i = 0; t.used && i < 3; i++)
    catch_signal((int[]){SIGINT, SIGTERM, SIGHUP}[i]);
  if (t.used) {
    catch_signal(SIGWINCH);
    catch_signal(SIGTSTP);
  }
  enter_screen(&t);
  return t;
}

/* Ctrl-Z: the shell gets its terminal back; later it is ours again. */
static void suspend_screen(struct terminal *t) {
  suspended = 0;
  leave_screen(t);
  raise(SIGSTOP);
  enter_screen(t);
}

static struct tagc_live_screen screen_now(const struct terminal *t) {
  struct tagc_live_screen screen = {.terminal = t->used, .colours = t->colours};
  struct timespec now;
  struct winsize size;
  clock_gettime(CLOCK_REALTIME, &now);
  screen.now = (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
  screen.columns = t->used ? COLUMNS : WIDE;
  screen.rows = t->used ? ROWS : 0;
  if (t->used && ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col && size.ws_row) {
    screen.columns = size.ws_col;
    screen.rows = size.ws_row;
  }
  return screen;
}

static int64_t ms_now(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* Waits for a key or a change of the window, at most until then. True: the user wants the end. */
static bool user_ends(struct terminal *t, int64_t until) {
  struct pollfd keys = {.fd = t->keys ? STDIN_FILENO : -1, .events = POLLIN};
  char key;
  for (int64_t left; !stop_signal && !resized && (left = until - ms_now()) > 0;) {
    const int ready = poll(&keys, 1, left > 1000 ? 1000 : (int)left);
    if (suspended) {
      suspend_screen(t);
      return false;
    }
    if (ready > 0 && (read(STDIN_FILENO, &key, 1) != 1 || key == 'q' || key == 'Q'))
      return true;
  }
  return stop_signal != 0;
}

/* False: standard output takes no more. */
static bool show_screen(const struct tagc_live *live, const struct tagc_live_screen *screen) {
  if (screen->terminal)
    fputs("\033[H", stdout);
  tagc_live_draw(live, screen, stdout);
  if (!screen->terminal)
    fputc('\n', stdout);
  return fflush(stdout) == 0 && !ferror(stdout);
}

static void read_traces(struct tagc_live *live, char *const *words) {
  struct tagc_paths paths = {NULL, 0};
  for (; *words; words++)
    (void)tagc_paths_add(&paths, *words); /* a folder may be empty still, or come later */
  tagc_live_read(live, &paths);
  tagc_paths_free(&paths);
}

int tagc_live_run(const char *program, char *const *words, double interval) {
  struct terminal t = open_terminal();
  struct tagc_live live = {.began = (double)time(NULL)};
  enum tagc_live_state state = TAGC_LIVE_RUNNING;
  bool over = false, written = true;
  while (!over && written) {
    const int64_t until = ms_now() + (int64_t)(1000 * interval);
    read_traces(&live, words);
    struct tagc_live_screen screen = screen_now(&t);
    written = show_screen(&live, &screen);
    state = tagc_live_state(&live, screen.now);
    over = !t.used && state != TAGC_LIVE_RUNNING;
    while (!over && written && (over = user_ends(&t, until)) == false && resized) {
      resized = 0;
      screen = screen_now(&t);
      written = show_screen(&live, &screen);
    }
  }
  leave_screen(&t);
  tagc_live_free(&live);
  if (stop_signal) { /* the shell shall know what has ended it */
    signal(stop_signal, SIG_DFL);
    raise(stop_signal);
  }
  if (!written)
    return tagc_fail(program, 1, "standard output: %s", strerror(errno ? errno : EIO));
  if (!t.used && state == TAGC_LIVE_GONE)
    tagc_fail(program, 0, "no trace has grown for %d minutes: the job has died, or waits", TAGC_LIVE_GONE_SECONDS / 60);
  return 0;
}
