import KeyCustody
import StoreCrypto
import StorePlatform
import Synchronization

/// A PKCS#11 token as a device: a key on it wraps the secrets of keyslots.
struct PKCS11Device: TokenDevice {
    let modulePath: String
    /// The attributes that select the token, and for a new keyslot the key on it.
    let uri: TokenURI
    let login: PKCS11Login

    var kind: Keyslot.Kind { .pkcs11 }
    var name: String { "PKCS#11 token" }

    func mayOpen(_ token: SlotToken) -> Bool {
        guard let token = PKCS11Token(encoded: token.blob) else { return false }
        return (uri.serial ?? token.serial) == token.serial && (uri.tokenLabel ?? token.tokenLabel) == token.tokenLabel
            && (uri.object ?? token.keyLabel) == token.keyLabel && (uri.id ?? token.keyID) == token.keyID
    }

    func wrapsAlone(_ former: SlotToken) -> Bool {
        guard case .rsa? = PKCS11Token(encoded: former.blob)?.method else { return false }
        return true
    }

    // MARK: Wrapping

    func wrap(_ secret: SecretBytes, for store: StoreID, replacing former: SlotToken?) throws -> WrappedSecret {
        let known = former.flatMap { PKCS11Token(encoded: $0.blob) }
        if let known, case .rsa(let modulus, let exponent, let usesSHA256, _) = known.method {
            let method = try Self.sealed(secret, modulus, exponent, usesSHA256: usesSHA256)
            return try Self.wrapped(known.with(method))
        }
        let module = try PKCS11Module.at(modulePath)
        let place = try known.map { try self.place(of: $0, in: module) } ?? newPlace(in: module)
        let token = try session(on: place, of: module) { session in
            if let known {
                let key = try Self.key(of: known, .aes, session)
                return known.with(try Self.sealed(secret, key, session, store))
            }
            return try newToken(secret, store, place.identity, session)
        }
        return try Self.wrapped(token)
    }

    private static func wrapped(_ token: PKCS11Token) throws -> WrappedSecret {
        // Cryptoki's label has at most 32 characters; those that a sidecar cannot have are left out.
        let label = String(decoding: token.tokenLabel.utf8.filter(SlotLabel.mayContain), as: UTF8.self)
        let name = try SlotLabel(label.trimmingBlanks)
        guard let slot = SlotToken(name: name, blob: token.encoded), PKCS11Token(encoded: slot.blob) == token else {
            throw StoreError(
                .invalidKey, what: "The key on the PKCS#11 token cannot be used.",
                why: "Its label or identifier is longer than 255 bytes, or its modulus than 1,024.",
                remedy: "Use another key of the token.")
        }
        return WrappedSecret(slot)
    }

    /// Wraps by the key that the URI selects: a secret key, or otherwise a private one.
    private func newToken(
        _ secret: SecretBytes, _ store: StoreID, _ token: TokenIdentity, _ session: PKCS11Session
    ) throws -> PKCS11Token {
        func made(_ key: UInt, _ method: PKCS11Token.Method) throws -> PKCS11Token {
            PKCS11Token(
                serial: token.serial, tokenLabel: token.label, keyID: try session.attribute(.id, of: key),
                keyLabel: String(decoding: try session.attribute(.label, of: key), as: UTF8.self), method: method)
        }
        if uri.type != "private", let key = try Self.one(session.keys(.aes, label: uri.object, id: uri.id), uri) {
            return try made(key, Self.sealed(secret, key, session, store))
        }
        if uri.type != "secret-key",
            let key = try Self.one(session.keys(.rsaPrivate, label: uri.object, id: uri.id), uri)
        {
            let modulus = try Self.integer(session.attribute(.modulus, of: key))
            let exponent = try Self.integer(session.attribute(.exponent, of: key))
            let method = try Self.sealedForTrial(secret, modulus, exponent, key, session)
            return try made(key, method)
        }
        throw StoreError(
            .keyMissing, what: "The PKCS#11 token \(token) has no key for a keyslot.",
            why: "It has no AES key, and no private RSA key, that the URI selects.",
            remedy: "Make one, for example: pkcs11-tool --login --keygen --key-type AES:32 --label store.")
    }

    private static func one(_ keys: [UInt], _ uri: TokenURI) throws(StoreError) -> UInt? {
        guard keys.count <= 1 else {
            throw StoreError(
                .invalidKey, what: "The key on the PKCS#11 token is not known.",
                why: "\(keys.count) keys of the token are selected by the URI.",
                remedy: "Name one by object=LABEL or id=%HEX in the URI.")
        }
        return keys.first
    }

    private static func sealed(
        _ secret: SecretBytes, _ key: UInt, _ session: PKCS11Session, _ store: StoreID
    ) throws -> PKCS11Token.Method {
        let nonce = try SystemRandom.bytes(AuthenticatedEncryption.nonceBytes)
        let additional = PKCS11Token.additionalData(of: store)
        return .aes(nonce: nonce, sealed: try session.encrypt(secret, key: key, nonce: nonce, additional: additional))
    }

    private static func sealed(
        _ secret: SecretBytes, _ modulus: [UInt8], _ exponent: [UInt8], usesSHA256: Bool
    ) throws -> PKCS11Token.Method {
        let sealed = try KeyTransport.encrypt(
            secret, modulus: modulus, exponent: exponent, hash: usesSHA256 ? .sha256 : .sha1)
        return .rsa(modulus: modulus, exponent: exponent, usesSHA256: usesSHA256, sealed: sealed)
    }

    /// Encrypts with SHA-256, or with SHA-1 for a token that has no other OAEP: OAEP does not need a hash without
    /// collisions.
    private static func sealedForTrial(
        _ secret: SecretBytes, _ modulus: [UInt8], _ exponent: [UInt8], _ key: UInt, _ session: PKCS11Session
    ) throws -> PKCS11Token.Method {
        for usesSHA256 in [true, false] {
            let method = try sealed(secret, modulus, exponent, usesSHA256: usesSHA256)
            guard case .rsa(_, _, _, let sealed) = method else { continue }
            do throws(PKCS11Failure) {
                if try session.decrypt(sealed, key: key, usesSHA256: usesSHA256).isEqual(to: secret) { return method }
            } catch {
                if !usesSHA256 { throw error }
            }
        }
        throw Self.wrongKey()
    }

    /// An integer of Cryptoki without leading zeros.
    private static func integer(_ bytes: [UInt8]) -> [UInt8] { Array(bytes.drop { $0 == 0 }) }

    // MARK: Unwrapping

    func unwrap(_ token: SlotToken, of slot: TokenSlot) throws -> SecretBytes? {
        guard let token = PKCS11Token(encoded: token.blob) else { return nil }
        let module = try PKCS11Module.at(modulePath)
        let place = try place(of: token, in: module)
        return try session(on: place, of: module) { session in
            switch token.method {
            case .aes(let nonce, let sealed):
                return try session.decrypt(
                    sealed, key: Self.key(of: token, .aes, session), nonce: nonce,
                    additional: PKCS11Token.additionalData(of: slot.store))
            case .rsa(_, _, let usesSHA256, let sealed):
                return try session.decrypt(
                    sealed, key: Self.key(of: token, .rsaPrivate, session), usesSHA256: usesSHA256)
            }
        }
    }

    /// The key that has wrapped the secret of a slot.
    private static func key(of token: PKCS11Token, _ kind: PKCS11KeyKind, _ session: PKCS11Session) throws -> UInt {
        let keys = try session.keys(
            kind, label: token.keyLabel.isEmpty ? nil : token.keyLabel, id: token.keyID.isEmpty ? nil : token.keyID)
        guard let key = keys.first else {
            throw StoreError(
                .keyMissing, what: "The key of the keyslot is not on the PKCS#11 token \"\(token.tokenLabel)\".",
                why:
                    "No key has the label \"\(token.keyLabel)\" and the identifier \"\(Hex.text(token.keyID))\" of the "
                    + "slot.", remedy: "Restore the key on the token.")
        }
        guard keys.count == 1 else {
            throw StoreError(
                .invalidKey, what: "The key of the keyslot is not known.",
                why: "\(keys.count) keys of the token \"\(token.tokenLabel)\" have its label and identifier.",
                remedy: "Give the other keys another identifier.")
        }
        return key
    }

    // MARK: Sessions

    private func place(of token: PKCS11Token, in module: PKCS11Module) throws -> PKCS11Module.Place {
        let fitting = try places(module).filter {
            $0.identity.serial == token.serial && $0.identity.label == token.tokenLabel
        }
        let name = "\"\(token.tokenLabel)\" (serial \(token.serial))"
        guard let place = fitting.first else {
            throw StoreError(
                .keyMissing, what: "The PKCS#11 token \(name) is not there.",
                why: "The module \"\(modulePath)\" knows no token of this label and serial number.",
                remedy: "Insert the token.")
        }
        guard fitting.count == 1 else { throw Self.ambiguous(fitting) }
        return place
    }

    private func newPlace(in module: PKCS11Module) throws -> PKCS11Module.Place {
        let all = try places(module)
        let fitting = all.filter { uri.selects($0.identity) }
        guard let place = fitting.first else {
            let names = all.map(\.identity.description).joined(separator: ", ")
            throw StoreError(
                .keyMissing, what: "The PKCS#11 token is not there.",
                why: "The URI selects none of the tokens of \"\(modulePath)\": " + (names.isEmpty ? "none" : names)
                    + ".",
                remedy: "Insert the token, or name one of them.")
        }
        guard fitting.count == 1 else { throw Self.ambiguous(fitting) }
        return place
    }

    private static func ambiguous(_ places: [PKCS11Module.Place]) -> StoreError {
        StoreError(
            .invalidKey, what: "The PKCS#11 token is not known.",
            why: "Several tokens fit: \(places.map(\.identity.description).joined(separator: ", ")).",
            remedy: "Name one by serial=NUMBER in the URI, and remove a second one of the same number.")
    }

    private func places(_ module: PKCS11Module) throws -> [PKCS11Module.Place] {
        do throws(PKCS11Failure) {
            return try module.places()
        } catch {
            throw Self.error(error, "of \"\(modulePath)\"")
        }
    }

    private func session<Result: Sendable>(
        on place: PKCS11Module.Place, of module: PKCS11Module, _ body: (PKCS11Session) throws -> Result
    ) throws -> Result {
        let pin = try login.pin(for: place)
        do {
            return try module.withSession(on: place, pin: pin, didLogIn: { login.keep(pin, for: place) }, body)
        } catch let failure as PKCS11Failure {
            throw Self.error(failure, place.identity.description)
        }
    }

    // MARK: Errors

    private static func wrongKey() -> StoreError {
        StoreError(
            .invalidKey, what: "The key on the PKCS#11 token cannot be used.",
            why: "It does not decrypt what was encrypted to its public key.", remedy: "Use another key of the token.")
    }

    private static func error(_ failure: PKCS11Failure, _ token: String) -> StoreError {
        let what = "The PKCS#11 token \(token) gave no key."
        if failure.isWrongPIN {
            return StoreError(
                .wrongKey, what: what, why: "The PIN is wrong (\(failure)).",
                remedy: "Check the PIN. After some wrong ones the token locks it.")
        }
        if failure.isExpiredPIN {
            return StoreError(
                .keyMissing, what: what, why: "The PIN has expired.",
                remedy: "Set another one with the token's program.")
        }
        if failure.isLockedPIN { return PKCS11Login.locked(what) }
        return StoreError(
            .keyMissing, what: what, why: "A call of the module failed (\(failure)).",
            remedy: "Check the token, and what its key may be used for.")
    }
}

/// The PIN of a token, read when it is needed and kept when the token has accepted it.
final class PKCS11Login: Sendable {
    private let source: KeySource?
    private let onNote: @Sendable (String) -> Void
    private let accepted = Mutex<[TokenIdentity: SecretBytes]>([:])

    init(_ source: KeySource?, onNote: @escaping @Sendable (String) -> Void) {
        self.source = source
        self.onNote = onNote
    }

    /// The PIN; empty for a keypad, nil for a token without a login.
    ///
    /// - Throws: `StoreError` `keyMissing` when the PIN is locked, or would be by a wrong one that nobody typed.
    func pin(for place: PKCS11Module.Place) throws -> SecretBytes? {
        guard place.needsLogin else { return nil }
        let what = "The PKCS#11 token \(place.identity) gave no key."
        if place.isPINLocked { throw Self.locked(what) }
        if let pin = accepted.withLock({ $0[place.identity] }) { return pin }
        let isLastTry = place.isLastTry
        if isLastTry { onNote("the PKCS#11 token \(place.identity) accepts one more PIN: a wrong one locks it") }
        if place.hasKeypad {
            onNote("enter the PIN at the PKCS#11 token \(place.identity)")
            return SecretBytes(copying: [])
        }
        guard let source else {
            throw StoreError(
                .keyMissing, what: what, why: "It needs a PIN, and none was given.",
                remedy: "Give the PIN by a file, a descriptor, a command or at the prompt.")
        }
        guard !isLastTry || source.isInteractive else {
            throw StoreError(
                .keyMissing, what: what,
                why: "It accepts one more PIN, and a wrong one locks it: a stored PIN is not tried.",
                remedy: "Log in once with the right PIN, typed at the prompt or in the token's program.")
        }
        return try source.read().withBytes { SecretBytes(copying: $0) }
    }

    func keep(_ pin: SecretBytes?, for place: PKCS11Module.Place) {
        guard let pin else { return }
        accepted.withLock { $0[place.identity] = pin }
    }

    static func locked(_ what: String) -> StoreError {
        StoreError(
            .keyMissing, what: what, why: "Its PIN is locked: there were too many wrong ones (CKR_PIN_LOCKED).",
            remedy: "Unlock it with the token's program and the PIN of its security officer.")
    }
}

extension PKCS11Token {
    /// The same key of the same token with another result.
    fileprivate func with(_ method: Method) -> PKCS11Token {
        PKCS11Token(serial: serial, tokenLabel: tokenLabel, keyID: keyID, keyLabel: keyLabel, method: method)
    }
}

extension String {
    fileprivate var trimmingBlanks: String {
        String(drop { $0 == " " }.reversed().drop { $0 == " " }.reversed())
    }
}
