import KeyCustody
import StoreCrypto

/// Where the key of a connection comes from.
package enum KeyOrigin: Sendable {
    /// From the functions of ``Configuration/prepareDatabase(_:)``.
    case fromPrepareDatabase
    /// From a key source that was read already; a store that does not exist is created with these settings.
    case secret(Secret, creatingWith: CipherSettings)
    /// From the file key, which has the keys of an earlier opening (``FileKey/successor()``); nothing is created.
    case knownKeys
    /// A random one that is not stored, for a temporary file; keys that preparing functions set are not used.
    case throwaway

    var isFromPrepareDatabase: Bool { if case .fromPrepareDatabase = self { true } else { false } }
}
