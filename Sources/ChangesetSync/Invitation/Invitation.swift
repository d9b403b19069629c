import KeyCustody
import StoreCrypto
import StorePlatform

/// What another device needs to join a repository: its key, wrapped by a passphrase or a key file, and where its remote is.
///
/// ```swift
/// try repository.invitation(lockedBy: .passphrase(words)).write(to: "/media/stick/app.invitation")
/// // On the other device, whose store has the same tables:
/// let invitation = try Invitation(contentsOf: "/media/stick/app.invitation")
/// try repository.join(invitation, unlockedBy: .prompt("Passphrase: "), tables: ["player"])
/// ```
///
/// Whoever has the file and its passphrase reads and writes the repository. The bytes: Docs/Formats/Invitation.md.
public struct Invitation: Hashable, Sendable {
    /// The repository that it is for. It is readable without the key.
    public let repository: RepositoryID
    /// The number of the repository's key.
    public let epoch: UInt32
    /// All bytes of the file.
    public let bytes: [UInt8]

    let derivation: SlotDerivation
    let salt: Salt
    private var nonce: [UInt8] { Array(bytes[Offset.nonce..<Offset.sealed]) }
    private var sealed: [UInt8] { Array(bytes[Offset.sealed..<(bytes.count - Self.checksumBytes)]) }

    static let magic = Array("CSI1".utf8)
    static let version: UInt8 = 1
    static let label = "cipherstore invitation v1"
    static let nonceBytes = AuthenticatedEncryption.nonceBytes
    static let tagBytes = AuthenticatedEncryption.tagBytes
    static let checksumBytes = 32

    /// Where each field begins; Docs/Formats/Invitation.md tabulates them.
    enum Offset {
        static let magic = 0
        static let version = 4
        static let derivation = 5
        static let reserved = 18
        static let epoch = 20
        static let repository = 24
        static let salt = 40
        static let sealedBytes = 56
        static let nonce = 60
        static let sealed = 72
    }

    /// The bytes of an invitation without the address of a remote.
    private static let fewestBytes = Offset.sealed + RepositoryKey.secretBytes + tagBytes + checksumBytes
    static let byteCounts = fewestBytes...(fewestBytes + Limits.remoteAddressBytes)

    // MARK: Reading

    /// Reads a file. No key is needed for that.
    ///
    /// - Throws: ``InvitationError`` `.notAnInvitation`, `.newerVersion`, `.truncated`, `.damaged`; `SystemError`.
    public init(contentsOf path: String) throws {
        let bytes: [UInt8]
        if let kind = try Files.kind(path), kind != .regular {
            throw InvitationError(.notAnInvitation, "It is no regular file.")
        }
        do throws(SystemError) {
            bytes = try Files.contents(of: path, limitBytes: Self.byteCounts.upperBound)
        } catch {
            if error.isTooLarge { throw InvitationError(.notAnInvitation, "It is too long for one.") }
            throw error
        }
        try self.init(bytes: bytes)
    }

    /// Reads the bytes of an invitation.
    ///
    /// - Throws: ``InvitationError`` `.notAnInvitation`, `.newerVersion`, `.truncated`, `.damaged`.
    public init(bytes: [UInt8]) throws {
        let start = bytes.prefix(Self.magic.count)
        guard start.elementsEqual(Self.magic.prefix(start.count)), !bytes.isEmpty else {
            throw InvitationError(.notAnInvitation)
        }
        guard bytes.count > Offset.version else { throw InvitationError(.truncated) }
        guard bytes[Offset.version] == Self.version else {
            throw InvitationError(.newerVersion, "It has version \(bytes[Offset.version]).")
        }
        guard bytes.count >= Self.byteCounts.lowerBound else { throw InvitationError(.truncated) }
        func number(at offset: Int) -> UInt32 { bytes[offset..<(offset + 4)].reduce(0) { $0 << 8 | UInt32($1) } }
        let end = Offset.sealed + Int(number(at: Offset.sealedBytes)) + Self.checksumBytes
        guard Self.byteCounts.contains(end), bytes.count <= end else {
            throw InvitationError(.damaged, "Its length is not the one that it names.")
        }
        guard bytes.count == end else { throw InvitationError(.truncated) }
        guard try Self.checksum(bytes.dropLast(Self.checksumBytes)).elementsEqual(bytes.suffix(Self.checksumBytes))
        else { throw InvitationError(.damaged, "Its checksum does not fit.") }
        guard
            let derivation = SlotDerivation(encoded: Array(bytes[Offset.derivation..<Offset.reserved])),
            bytes[Offset.reserved..<Offset.epoch].allSatisfy({ $0 == 0 }),
            let repository = RepositoryID(bytes: bytes[Offset.repository..<Offset.salt]),
            number(at: Offset.epoch) > 0
        else { throw InvitationError(.damaged, "A field has no valid content.") }
        self.bytes = bytes
        self.repository = repository
        epoch = number(at: Offset.epoch)
        self.derivation = derivation
        salt = try Salt(bytes: Array(bytes[Offset.salt..<Offset.sealedBytes]))
    }

    package static func checksum(_ bytes: some Collection<UInt8>) throws(CryptoError) -> [UInt8] {
        var digest = try ContentDigest()
        Array(bytes).withUnsafeBytes { digest.update($0) }
        return try digest.finish()
    }

    // MARK: Sealing and opening

    /// Wraps a repository's key.
    init(_ key: RepositoryKey, _ address: RemoteAddress?, lockedBy secret: Secret) throws {
        let source = try SourceKey(of: secret, purpose: Self.label)
        try self.init(key, address, source, nonce: SystemRandom.bytes(Self.nonceBytes))
    }

    /// The bytes follow from these values alone.
    init(_ key: RepositoryKey, _ address: RemoteAddress?, _ source: SourceKey, nonce: [UInt8]) throws {
        let text = Array((address?.withoutCredentials.text ?? "").utf8)
        guard text.count <= Limits.remoteAddressBytes else { throw RemoteAddressError(.tooLong) }
        let plain = SecretBytes(count: RepositoryKey.secretBytes + text.count) { output in
            key.secret.withBytes { output.copyMemory(from: $0) }
            UnsafeMutableRawBufferPointer(rebasing: output[RepositoryKey.secretBytes...]).copyBytes(from: text)
        }
        var header = Self.magic + [Self.version] + source.derivation.encoded + [0, 0]
        header.append(bigEndian: key.epoch)
        header += key.repository.bytes + source.salt.bytes
        header.append(bigEndian: UInt32(plain.count + Self.tagBytes))
        header += nonce
        let sealed = try AuthenticatedEncryption.seal(plain, key: source.key, nonce: nonce, additionalData: header)
        let content = header + sealed
        try self.init(bytes: content + Self.checksum(content))
    }

    /// Unwraps the repository's key.
    ///
    /// - Throws: ``InvitationError`` `.wrongKey`, `.damaged`; `StoreError` `unsupportedLibrary`.
    func open(with secret: Secret) throws -> (key: RepositoryKey, address: RemoteAddress?) {
        let source = try SourceKey(of: secret, purpose: Self.label, derivation: derivation, salt: salt)
        return try open(with: source.key)
    }

    private func open(with key: SecretBytes) throws -> (key: RepositoryKey, address: RemoteAddress?) {
        let header = Array(bytes[..<Offset.sealed])
        let opened = try AuthenticatedEncryption.open(sealed, key: key, nonce: nonce, additionalData: header)
        guard let opened else { throw InvitationError(.wrongKey) }
        let (secret, text) = opened.withBytes { plain in
            (
                SecretBytes(copying: UnsafeRawBufferPointer(rebasing: plain[..<RepositoryKey.secretBytes])),
                Array(plain[RepositoryKey.secretBytes...])
            )
        }
        let address: RemoteAddress?
        do {
            address = try text.isEmpty ? nil : RemoteAddress(String(decoding: text, as: UTF8.self))
        } catch is RemoteAddressError {
            throw InvitationError(.damaged, "Its remote has no valid address.")
        }
        return (try RepositoryKey(repository: repository, epoch: epoch, secret: secret), address)
    }

    // MARK: Writing

    /// Writes a new file, which its owner alone may read (0600). It appears as a whole, and is durable.
    ///
    /// - Throws: ``InvitationError`` `.alreadyExists`: an invitation replaces no file; `SystemError`.
    public func write(to path: String) throws {
        let folder = try OpenFolder(opening: Files.directory(of: path))
        let name = Files.name(of: path)
        if try folder.status(of: name) != nil { throw InvitationError(.alreadyExists) }
        let digits = try SystemRandom.bytes(8).map { String($0, radix: 16) }.joined()
        let temporary = ".\(name).tmp-\(digits)"
        do throws(SystemError) {
            try Self.make(folder.path + "/" + temporary, bytes)
            try Self.publish(temporary, as: name, in: folder)
            try folder.synchronize()
        } catch {
            try? folder.remove(temporary)
            if error.isAlreadyThere { throw InvitationError(.alreadyExists) }
            throw error
        }
    }

    private static func make(_ path: String, _ bytes: [UInt8]) throws(SystemError) {
        let mode = FileAttributes.privatePermissions
        let file = try FileDescriptor(opening: path, .writeOnly, creating: .always(permissions: mode))
        // Restores what the umask removed.
        try file.setPermissions(mode)
        try file.write(bytes)
        try file.synchronize()
    }

    private static func publish(_ temporary: String, as name: String, in folder: OpenFolder) throws(SystemError) {
        do {
            try folder.link(temporary, to: folder, name)
        } catch {
            if error.isAlreadyThere { throw error }
            // A filesystem without hard links, as on a stick.
            return try folder.renameExclusively(temporary, to: folder, name)
        }
        try folder.remove(temporary)
    }
}

extension Invitation: CustomStringConvertible, CustomReflectable {
    public var description: String { "Invitation(repository \(repository), epoch \(epoch))" }
    public var customMirror: Mirror { Mirror(self, children: []) }
}

/// Why an invitation cannot be used. Nothing was changed then.
public struct InvitationError: Error, Hashable, Sendable {
    public enum Code: String, Hashable, Sendable {
        /// The file is something else.
        case notAnInvitation
        /// A later version of this library made it.
        case newerVersion
        /// Its end is missing.
        case truncated
        /// Its bytes are not those that were written.
        case damaged
        /// The key does not open it, or it was forged.
        case wrongKey
        /// There is a file at the place of a new invitation.
        case alreadyExists
        /// The store has another key of the same repository.
        case otherEpoch
    }

    public let code: Code
    /// What is known beyond the code, as a sentence; never a part of a key.
    public let detail: String?

    init(_ code: Code, _ detail: String? = nil) { (self.code, self.detail) = (code, detail) }

    /// What happened.
    public var reason: String {
        let text =
            switch code {
            case .notAnInvitation: "The file is no invitation to a repository."
            case .newerVersion: "The invitation has a format that this version does not know."
            case .truncated: "The invitation is incomplete: its end is missing."
            case .damaged: "The invitation is damaged."
            case .wrongKey: "The key does not open the invitation, or somebody has forged it."
            case .alreadyExists: "There is something at the place of the new invitation, and it is not replaced."
            case .otherEpoch: "The store has the key of this repository with another number."
            }
        return detail.map { "\(text) \($0)" } ?? text
    }

    /// What to do.
    public var remedy: String {
        switch code {
        case .notAnInvitation: "Give the file that the inviting device has written."
        case .newerVersion: "Update this program, or let the inviting device use the same version."
        case .truncated, .damaged: "Copy the file again, or let the inviting device write a new one."
        case .wrongKey: "Check the passphrase or key file of the invitation; it is not that of a store."
        case .alreadyExists: "Name a file that does not exist, or remove that one first."
        case .otherEpoch: "Ask for an invitation that was written after the key was changed."
        }
    }
}

extension InvitationError: CustomStringConvertible {
    public var description: String { "\(code.rawValue): \(reason) \(remedy)" }
}
