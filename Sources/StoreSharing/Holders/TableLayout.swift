/// The layout of the mapped part of the lock file; offsets count from its beginning, ``LockByte/mappedBase``.
///
/// Numbers are in the machine's byte order: the processes that share the file run on one machine.
package enum TableLayout {
    /// The eight bytes `CSHOLDER`.
    static let magic: UInt64 = UInt64(littleEndian: 0x5245_444c_4f48_5343)
    /// Incremented with every change of this layout.
    static let version: UInt32 = 3

    /// The words that all holders share, each group in cache lines of its own.
    enum Header {
        /// u64; written first when the table is made.
        static let magic = 0
        /// u32; written last.
        static let version = 8
        /// u32; the holder of the write turn (``OwnerWord``), 0 when it is free.
        static let owner = 64
        /// u64, monotonic nanoseconds; when the write turn was last handed over.
        static let handedOverAt = 72
        /// u64; the ticket of the next waiting writer.
        static let nextTicket = 128
        /// 1024 bits, one for each row: its holder waits for the write turn.
        static let waiting = 192
        static let waitingWords = 16
        /// u32; incremented with each change of a yield request. The users of the store sleep on this word.
        static let requests = 320
        /// u32; 1 when the request also ends long reads. It is valid while the byte `intent` is locked.
        static let insists = 324
        /// u64; the WAL at the last checkpoint that any process made or tried: its length in frames in the lower half,
        /// the second of its salts in the upper one.
        static let checkpointed = 328
        /// u64; bit n: word n of ``watching`` may have a bit that is set. No bit of it is ever cleared.
        static let watchers = 336
        /// 1024 bits, one for each row: its holder is woken after each commit of another one.
        static let watching = 384
        static let watchingWords = 16
        static let byteCount = 4096
    }

    /// A holder row. It is valid while its byte is locked and ``process`` is not 0.
    package enum Row {
        /// u32; incremented by each new holder of the row.
        static let generation = 0
        /// u32; the word on which the holder sleeps while it waits (``WakeWord``).
        static let wake = 4
        /// u64; its place in the writer queue: lower ones are served first.
        static let ticket = 8
        /// u64, monotonic nanoseconds; since when it waits.
        static let waitingSince = 16
        /// i32; written last by a new holder.
        static let process = 24
        /// u32; its roles (``HolderRoles``).
        static let roles = 28
        /// u64, clock ticks since the machine started; when the process started, which distinguishes it from a later
        /// process of the same number.
        static let processStart = 32
        /// u64; the inode of the pid namespace in which the process number is valid.
        static let pidNamespace = 40
        /// i64, milliseconds since 1970; since when it holds the row.
        static let openedAt = 48
        /// u64, monotonic nanoseconds; since when it holds the write turn, 0 without it.
        package static let writingSince = 56
        /// u64; how often it held the write turn.
        static let writeCount = 64
        /// u64, nanoseconds; the total time for which it held the write turn.
        static let writeTotal = 72
        /// u64, nanoseconds; the longest time it held the write turn.
        static let longestWrite = 80
        /// u64, nanoseconds; the total time for which it waited for the write turn.
        static let waitTotal = 88
        /// UTF-8 padded with zeros; the name of the connection.
        static let label = 96
        static let labelBytes = 32
        static let byteCount = 128
    }

    static let rowCount = LockByte.rows.count
    /// 1024 words u32, one for each row: the word on which its holder sleeps until a commit (``NoticeWord``).
    static let notices = Header.byteCount + rowCount * Row.byteCount
    static let noticeBytes = 4
    static let byteCount = notices + rowCount * noticeBytes
    /// The length of the whole file.
    static let fileBytes = Int(LockByte.mappedBase) + byteCount

    /// Where a row begins.
    static func row(_ number: Int) -> Int { Header.byteCount + number * Row.byteCount }
    /// Where the notice word of a row is.
    static func notice(_ number: Int) -> Int { notices + number * noticeBytes }
}

/// The roles of a holder of a row.
package struct HolderRoles: OptionSet, Sendable {
    package let rawValue: UInt32
    package init(rawValue: UInt32) { self.rawValue = rawValue }

    /// It has a connection that may write.
    package static let writer = HolderRoles(rawValue: 1)
    /// It has the store open as a shared store, and so a lease.
    package static let lease = HolderRoles(rawValue: 2)
    /// It opened the store for reading only.
    package static let readOnly = HolderRoles(rawValue: 4)
    /// It is suspended.
    package static let suspended = HolderRoles(rawValue: 8)
}

/// The holder of the write turn, as one word: the number of its row with the row's generation. So a word of a former
/// holder of the row never counts for the present one.
struct OwnerWord: Equatable {
    let rawValue: UInt32

    private static let rowMask: UInt32 = 0x7ff
    private static let offer: UInt32 = 0x800
    private static let generationShift: UInt32 = 12

    static let free = OwnerWord(rawValue: 0)

    init(rawValue: UInt32) { self.rawValue = rawValue }

    /// - Parameter isOffer: Whether the write turn is only offered to that holder, which must accept it.
    init(row: Int, generation: UInt32, isOffer: Bool = false) {
        rawValue = UInt32(row + 1) | generation << Self.generationShift | (isOffer ? Self.offer : 0)
    }

    var isOffer: Bool { rawValue & Self.offer != 0 }
    /// The row of the table; nil when the write turn is free, or when the word is not valid.
    var row: Int? {
        let number = Int(rawValue & Self.rowMask)
        return 1...TableLayout.rowCount ~= number ? number - 1 : nil
    }

    /// Whether the word is of this generation of its row.
    func belongs(to generation: UInt32) -> Bool {
        rawValue >> Self.generationShift == (generation << Self.generationShift) >> Self.generationShift
    }
}

/// The values of the word on which the watcher of commits sleeps.
enum NoticeWord {
    /// Asleep, or about to poll: the next commit must wake it.
    static let armed: UInt32 = 0
    /// There was a commit since; it polls before it sleeps again. The next committer wakes it once more: the process
    /// that stored this may have been killed before it did.
    static let noticed: UInt32 = 1
    /// The same, and it was woken.
    static let woken: UInt32 = 2
}

/// The values of the word on which a waiting holder sleeps.
enum WakeWord {
    /// Asleep, to be woken when the write turn is free.
    static let armed: UInt32 = 0
    /// Asleep for a moment after it came too late; only an offer wakes it.
    static let quiet: UInt32 = 1
    /// Woken: the write turn was free.
    static let notified: UInt32 = 2
    /// Woken: the write turn was offered to it, or another thread of its process called it.
    static let called: UInt32 = 3
}
