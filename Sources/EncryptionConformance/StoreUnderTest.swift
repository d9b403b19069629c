import CipherStore
import StoreTools

/// A store that is held against the checks of this module.
///
/// Only `path` and `keySource` are required. Further facts from a program: they allow checks that need to know how the
/// program itself opens its store.
public protocol StoreUnderTest: Sendable {
    /// The database file, or the folder of a backup.
    var path: String { get }
    /// Where the key comes from; read once.
    var keySource: KeySource { get }
    /// Keys that the store had before it was rotated: no page may be authentic under one of them. Default: none.
    var formerKeys: [FormerKey] { get }
    /// The beginning of the version of SQLCipher that the program claims to run with, as in `4.6`. Default: nil, any.
    var claimedCipherVersion: String? { get }
    /// Files and folders to which the program and its libraries may write: logs, folders of temporary files. They are
    /// searched for the marker. Default: none.
    var traces: [String] { get }
    /// Whether the checks may write a marker into the store itself; it is removed again. Default: false; the marker is
    /// then written into a sample store only.
    var allowsCanary: Bool { get }

    /// Its `prepareDatabase` gives the connections of the checks the functions, collations and modules that the schema
    /// needs. Without them what needs them is not checked, and named. Default: nothing.
    var configuration: Configuration { get }

    /// Opens the store as the program does, so that its connections are examined. It is closed afterwards.
    ///
    /// Default: nil; then the connections of a sample store with the library's own configuration are examined.
    func openPool() throws -> (any DatabaseReader)?

    /// Reads a store that was attacked, as the program would. Throws when it notices. Called on several threads at once,
    /// each with a store of its own.
    ///
    /// Default: `StoreVerification`, which throws ``AttackNoticed`` for damage in its report.
    ///
    /// - Returns: Remarks of the program that are no errors.
    func read(attacked path: String, unlockedBy source: KeySource) throws -> [String]
}

extension StoreUnderTest {
    public var formerKeys: [FormerKey] { [] }
    public var claimedCipherVersion: String? { nil }
    public var traces: [String] { [] }
    public var allowsCanary: Bool { false }
    public var configuration: Configuration { Configuration() }
    public func openPool() throws -> (any DatabaseReader)? { nil }

    public func read(attacked path: String, unlockedBy source: KeySource) throws -> [String] {
        var tool = StoreVerification(path, unlockedBy: source)
        tool.configuration = configuration
        let report = try tool.run()
        if let problem = report.problems.first { throw AttackNoticed(what: problem) }
        return report.unchecked
    }
}

/// The problem by which an attack was noticed.
public struct AttackNoticed: Error, CustomStringConvertible {
    /// The problem, as a sentence without its full stop.
    public let what: String
    public init(what: String) { self.what = what }
    public var description: String { what }
}

/// A store by its file and its key.
public struct StoreFile: StoreUnderTest {
    public let path: String
    public let keySource: KeySource
    public var formerKeys: [FormerKey] = []
    public var claimedCipherVersion: String?
    public var traces: [String] = []
    public var allowsCanary = false
    public var configuration = Configuration()
    /// How the program opens the store; nil where its connections are not examined.
    public var pool: (@Sendable () throws -> any DatabaseReader)?

    /// - Parameters:
    ///   - path: The database file of the store, or the folder of a backup.
    ///   - source: Where the key comes from; it is read once.
    public init(_ path: String, unlockedBy source: KeySource) {
        self.path = path
        keySource = source
    }

    public func openPool() throws -> (any DatabaseReader)? { try pool?() }
}

/// The data key and the salt of a former epoch, as `cipherctl key reveal --json` printed them before the rotation.
public struct FormerKey: Sendable {
    let bytes: RawKey
    let salt: Salt
    let plaintextHeaderBytes: Int

    /// - Parameters:
    ///   - key: The data key of 32 bytes.
    ///   - salt: The salt that belonged to it.
    public init(_ key: RawKey, salt: Salt, plaintextHeaderBytes: Int = 32) {
        bytes = key
        self.salt = salt
        self.plaintextHeaderBytes = plaintextHeaderBytes
    }
}
