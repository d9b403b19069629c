import StorePlatform

/// Every bound of this module.
package enum CustodyLimits {
    /// The longest sidecar that is read or written.
    package static let sidecarBytes = 64 * 1024
    /// The longest passphrase, key file or output of a key command.
    static let keySourceBytes = 64 * 1024
    /// The longest time that a key command may run, unless its caller sets another.
    package static let keyCommandWait = Duration.seconds(30)
    /// The longest time that a pipe in place of a key file may take to deliver its key.
    static let keyPipeWait = Duration.seconds(30)
    /// PBKDF2 rounds that a sidecar may request. With more, a forged sidecar could delay every opening for minutes.
    static let kdfRounds = 1...10_000_000
    /// Page sizes that SQLite supports, all of them powers of two.
    static let pageBytes = 512...65_536
    /// The largest number of pages of a database. <https://www.sqlite.org/limits.html#max_page_count>
    static let databasePages = 4_294_967_294
    /// Digits of a counter in a sidecar; the largest has room for growth and cannot overflow.
    static let counterDigits = 18

    /// Keyslots of one store.
    static let keySlots = 32
    /// Stores of which a process remembers the keyslot that opened last.
    static let rememberedSlots = 1_024
    /// Characters of a slot's label.
    static let slotLabelCharacters = 64
    /// Bytes of the token of a slot.
    package static let tokenBytes = 4 * 1024
    /// Bytes of the tokens of all slots of a store: with as many pending slots the sidecar still has its length.
    static let allTokensBytes = 6 * 1024
    /// Characters of the name of a plugin.
    package static let pluginNameCharacters = 32
    /// log2 N of scrypt: 16 MiB to 1 GiB of memory with the block size below.
    static let scryptLog2Rounds = 14...20
    /// r of scrypt; other values have no advantage on today's processors.
    static let scryptBlockSize = 8
    /// p of scrypt.
    static let scryptLanes = 1...4
    /// Memory of Argon2id in KiB: 16 MiB to 1 GiB.
    static let argon2MemoryKiB = 16 * 1024...1024 * 1024
    /// Passes of Argon2id over its memory.
    static let argon2Iterations = 1...16
    /// Lanes of Argon2id.
    static let argon2Lanes = 1...8
    /// Memory that one derivation may take, in bytes; a keyslot that requests more is refused unread.
    static let slotMemoryBytes = 1 << 30
    /// Memory that the derivations of all slots of a store fill one after another, in bytes: the cost of a wrong
    /// passphrase for one copy of a sidecar. It is the memory of 32 slots with the default derivation, about ten
    /// seconds.
    static let slotWorkBytes = 4 << 30

    /// Length of a key log, about 3,000 events. A longer file is renamed and replaces the former file.
    static let keyLogBytes = 1 << 20
    /// Length of a line of the key log.
    static let keyLogLineBytes = 1024
}
