import Foundation

/// Signals that must not end a command in the middle of something; the failing call tells of it instead, and what was begun
/// is taken back. Programs that the command starts get the usual dispositions (`Subprocess`).
enum IgnoredSignals {
    /// For every command: a file that reaches its bound (`ulimit -f`) is an error, as a full disk is.
    static func begin() { signal(SIGXFSZ, SIG_IGN) }

    /// For commands that change files: a reader of their output who leaves must not leave work half done. All others end
    /// with their reader, as filters do.
    static func outliveReaders() { signal(SIGPIPE, SIG_IGN) }
}
