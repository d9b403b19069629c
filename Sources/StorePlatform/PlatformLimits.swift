/// Every bound of this module.
enum PlatformLimits {
    /// The most names that `OpenFolder.makePrivate` reads in a new folder. Other processes of this user may have made
    /// some, because they took the folder for an abandoned one.
    static let newFolderNames = 64
    /// The most names in a folder that `MadeFolder` removes.
    static let madeNames = 1 << 16
    /// The greatest depth of folders in a folder that `MadeFolder` removes.
    static let madeDepth = 8
    /// How often `MadeFolder` empties a folder in which a thread may still make files.
    static let folderRemovals = 1000
    /// How long an opening waits for a process that has a lease on the file: the kernel would wait for 45 seconds
    /// (`/proc/sys/fs/lease-break-time`), and a file server ends its lease in milliseconds.
    static let fileLeaseWait = Duration.seconds(5)
    static let fileLeasePause = Duration.milliseconds(10)
    /// Databases of which a process keeps which file they were.
    static let notedDatabases = 1024
    /// The part of the system's mount table that is searched for the name of a filesystem, in bytes.
    static let mountTableBytes = 4 * 1024 * 1024
    /// From this length on a database must not be mostly holes.
    static let sparseFileBytes = 64 << 20
    /// Bytes that are read at once to find the first one that is no zero.
    static let zeroSearchBytes = 64 * 1024
    /// The system's table of locks, in bytes; one lock takes about 100.
    static let lockTableBytes = 16 * 1024 * 1024
    /// The system's entry of one user, in bytes.
    static let userEntryBytes = 64 * 1024
    /// The maximum number of groups of one user that are read.
    static let groupsOfUser = 4096
    /// The system's description of one descriptor and its locks, in bytes.
    static let descriptorInfoBytes = 1024 * 1024
    /// The length of a line typed at a terminal with its end: Linux's limit
    /// (<https://man7.org/linux/man-pages/man3/termios.3.html>, "canonical mode").
    static let typedLineBytes = 4096
    /// How often a prompt checks, each millisecond, whether a requested stop is over.
    static let stopLooks = 10_000
    /// The environment of one process, in bytes: Linux limits it, with the arguments, to a quarter of the stack.
    static let environmentBytes = 8 * 1024 * 1024
    /// The first and the longest pause between two checks whether a program has ended.
    static let firstExitPause = Duration.microseconds(200)
    static let longestExitPause = Duration.milliseconds(20)
    /// How long a program that has closed its output has to end, before it is killed.
    static let dialogueEndWait = Duration.seconds(1)
    /// How long what looks wrong is read again before it is believed: another process may be writing it.
    static let settlingTime = Duration.milliseconds(100)
    /// The first and the longest pause between two such reads.
    static let firstSettlingPause = Duration.milliseconds(1)
    static let longestSettlingPause = Duration.milliseconds(5)
    /// After this time a temporary file is abandoned, even if its process lives: writing takes milliseconds.
    static let abandonedFileAge = Duration.seconds(600)
    /// After this time a temporary file is abandoned if its process is gone. It is not zero because the process may be
    /// invisible to this one, in another container that shares the folder.
    static let orphanedFileAge = Duration.seconds(60)
    /// How much space of a large file is freed at once, and the pause after it, in which other writers get access to
    /// the filesystem's journal.
    static let bytesFreedAtOnce = 8 * 1024 * 1024
    static let pauseOfFreeing: UInt32 = 2000
}
