import CPKCS11
import KeyCustody
import StoreCrypto
import StorePlatform
import Synchronization

/// A PKCS#11 module that the operator named. It is loaded once in a process, and stays loaded: other code of the process
/// may use it as well.
// Safe because: the pointer is never changed, and the module locks (CKF_OS_LOCKING_OK).
final class PKCS11Module: @unchecked Sendable {
    /// A slot with its token.
    struct Place: Hashable, Sendable {
        let slot: UInt
        let identity: TokenIdentity
        let flags: UInt

        var needsLogin: Bool { has(cpkcs11_login_required) }
        /// Whether the PIN is entered at the token.
        var hasKeypad: Bool { has(cpkcs11_protected_path) }
        var isPINLocked: Bool { has(cpkcs11_pin_locked_flag) }
        /// Whether one more wrong PIN locks it.
        var isLastTry: Bool { has(cpkcs11_pin_final_try) }

        private func has(_ flag: Int) -> Bool { flags & UInt(flag) != 0 }
    }

    let path: String
    private let module: OpaquePointer
    /// Held during the use of a session: being logged in is a state of the process, not of a session.
    private let use = Mutex(())

    private init(path: String, module: OpaquePointer) {
        self.path = path
        self.module = module
    }

    private static let loaded = Mutex<[String: PKCS11Module]>([:])

    /// The module at a path.
    ///
    /// - Throws: `StoreError` `invalidKey` for a path that is not absolute, `keyMissing` for a library that cannot be
    ///   loaded.
    static func at(_ path: String) throws(StoreError) -> PKCS11Module {
        guard path.hasPrefix("/") else {
            throw StoreError(
                .invalidKey, what: "The PKCS#11 module \"\(path)\" is not loaded.",
                why: "Its path is not absolute: the loader would search for it.", remedy: "Give its absolute path.")
        }
        return try loaded.withLock { modules throws(StoreError) in
            if let known = modules[path] { return known }
            var reason = [CChar](repeating: 0, count: 512)
            var result: UInt = 0
            guard let module = cpkcs11_load(path, &reason, reason.count, &result) else {
                let text = String(decoding: reason.prefix { $0 != 0 }.map { UInt8(bitPattern: $0) }, as: UTF8.self)
                throw StoreError(
                    .keyMissing, what: "The PKCS#11 module \"\(path)\" cannot be used.",
                    why: text.isEmpty ? "Its initialization failed (\(PKCS11Failure.name(result)))." : "\(text).",
                    remedy: "Check the path, and the configuration of the module.")
            }
            let made = PKCS11Module(path: path, module: module)
            modules[path] = made
            return made
        }
    }

    /// The tokens that are present.
    func places() throws(PKCS11Failure) -> [Place] {
        var slots = [UInt](repeating: 0, count: PKCS11Limits.slots)
        var count = UInt(slots.count)
        try PKCS11Failure.check(cpkcs11_slots(module, &slots, &count), "C_GetSlotList")
        var places: [Place] = []
        for slot in slots.prefix(Int(count)) {
            var info = cpkcs11_token()
            // A token that is removed at this moment, or that the module cannot read, is not present.
            guard cpkcs11_token_info(module, slot, &info) == 0 else { continue }
            let identity = withUnsafeBytes(of: &info) { bytes in
                TokenIdentity(
                    label: Self.text(bytes[0..<32]), serial: Self.text(bytes[80..<96]),
                    manufacturer: Self.text(bytes[32..<64]), model: Self.text(bytes[64..<80]))
            }
            guard info.flags & UInt(cpkcs11_token_initialized) != 0 else { continue }
            places.append(Place(slot: slot, identity: identity, flags: info.flags))
        }
        return places
    }

    /// A fixed field of Cryptoki, without its padding.
    private static func text(_ bytes: Slice<UnsafeRawBufferPointer>) -> String {
        String(decoding: bytes.reversed().drop { $0 == 0x20 || $0 == 0 }.reversed(), as: UTF8.self)
    }

    /// Runs a closure with a session on a token.
    ///
    /// - Parameters:
    ///   - pin: The PIN, empty for a token with a keypad of its own; nil for a token without a login.
    ///   - didLogIn: Called when the token has accepted the PIN.
    func withSession<Result: Sendable>(
        on place: Place, pin: SecretBytes?, didLogIn: () -> Void,
        _ body: (PKCS11Session) throws -> Result
    ) throws -> Result {
        try use.withLock { _ in
            var number: UInt = 0
            try PKCS11Failure.check(cpkcs11_open(module, place.slot, &number), "C_OpenSession")
            defer { cpkcs11_close(module, number) }
            var isOwnLogin = false
            if let pin {
                let result = pin.withBytes { bytes in
                    cpkcs11_login(module, number, bytes.isEmpty ? nil : bytes.baseAddress, UInt(bytes.count))
                }
                isOwnLogin = result == 0
                // Somebody else in this process has logged in, and would be logged out with this session.
                if result != UInt(cpkcs11_user_already_logged_in) {
                    try PKCS11Failure.check(result, "C_Login")
                }
                didLogIn()
            }
            defer { if isOwnLogin { cpkcs11_logout(module, number) } }
            return try body(PKCS11Session(module: module, number: number))
        }
    }
}

/// A session with a token; it is valid during the closure that it is passed to.
struct PKCS11Session {
    fileprivate let module: OpaquePointer
    fileprivate let number: UInt

    /// The keys of a class and type.
    func keys(_ kind: PKCS11KeyKind, label: String?, id: [UInt8]?) throws(PKCS11Failure) -> [UInt] {
        var objects = [UInt](repeating: 0, count: PKCS11Limits.keys)
        var count = UInt(objects.count)
        let result = cpkcs11_find(
            module, number, kind.objectClass, kind.keyType, label, id, UInt(id?.count ?? 0), &objects, &count)
        try PKCS11Failure.check(result, "C_FindObjects")
        return Array(objects.prefix(Int(count)))
    }

    /// An attribute of a key that is no secret.
    func attribute(_ type: PKCS11Attribute, of key: UInt) throws(PKCS11Failure) -> [UInt8] {
        var value = [UInt8](repeating: 0, count: PKCS11Limits.attributeBytes)
        var count = UInt(value.count)
        try PKCS11Failure.check(
            cpkcs11_attribute(module, number, key, type.rawValue, &value, &count), "C_GetAttributeValue")
        return Array(value.prefix(Int(count)))
    }

    /// Encrypts by AES-GCM; the result is ciphertext and tag.
    func encrypt(_ secret: SecretBytes, key: UInt, nonce: [UInt8], additional: [UInt8]) throws(PKCS11Failure) -> [UInt8]
    {
        var output = [UInt8](repeating: 0, count: PKCS11Limits.outputBytes)
        var count = UInt(output.count)
        let result = secret.withBytes { input in
            cpkcs11_aes_gcm(
                module, number, key, true, nonce, UInt(nonce.count), additional, UInt(additional.count),
                input.baseAddress, UInt(input.count), &output, &count)
        }
        try PKCS11Failure.check(result, "C_Encrypt")
        return Array(output.prefix(Int(count)))
    }

    /// Decrypts by AES-GCM.
    func decrypt(_ sealed: [UInt8], key: UInt, nonce: [UInt8], additional: [UInt8]) throws(PKCS11Failure) -> SecretBytes
    {
        try secret("C_Decrypt") { output, count in
            cpkcs11_aes_gcm(
                module, number, key, false, nonce, UInt(nonce.count), additional, UInt(additional.count), sealed,
                UInt(sealed.count), output, &count)
        }
    }

    /// Decrypts by RSA-OAEP.
    func decrypt(_ sealed: [UInt8], key: UInt, usesSHA256: Bool) throws(PKCS11Failure) -> SecretBytes {
        try secret("C_Decrypt") { output, count in
            cpkcs11_rsa_oaep_decrypt(module, number, key, usesSHA256, sealed, UInt(sealed.count), output, &count)
        }
    }

    /// The secret of 32 bytes that a call writes. Its memory has room for what a module writes besides.
    private func secret(
        _ call: String, _ body: (UnsafeMutableRawPointer?, inout UInt) -> UInt
    ) throws(PKCS11Failure) -> SecretBytes {
        var (result, count): (UInt, UInt) = (0, UInt(PKCS11Limits.outputBytes))
        let output = SecretBytes(count: PKCS11Limits.outputBytes) { result = body($0.baseAddress, &count) }
        try PKCS11Failure.check(result, call)
        return output.withBytes { SecretBytes(copying: UnsafeRawBufferPointer(rebasing: $0.prefix(Int(count)))) }
    }
}

/// The attributes that are read.
enum PKCS11Attribute: UInt {
    case label = 0x3
    case id = 0x102
    case modulus = 0x120
    case exponent = 0x122
}

/// The kinds of keys that wrap secrets.
enum PKCS11KeyKind: Sendable {
    case aes
    case rsaPrivate

    fileprivate var objectClass: UInt {
        UInt(self == .aes ? cpkcs11_class_secret : cpkcs11_class_private)
    }
    fileprivate var keyType: UInt { UInt(self == .aes ? cpkcs11_key_aes : cpkcs11_key_rsa) }
}

enum PKCS11Limits {
    static let slots = 256
    static let keys = 64
    static let attributeBytes = 2048
    /// A block of RSA with 8192 bits.
    static let outputBytes = 1024
}

/// A call of a module that failed.
struct PKCS11Failure: Error {
    let call: String
    /// CK_RV.
    let code: UInt

    static func check(_ code: UInt, _ call: String) throws(PKCS11Failure) {
        if code != 0 { throw PKCS11Failure(call: call, code: code) }
    }

    var isWrongPIN: Bool { isOne(of: cpkcs11_pin_incorrect, cpkcs11_pin_invalid, cpkcs11_pin_len_range) }
    var isExpiredPIN: Bool { isOne(of: cpkcs11_pin_expired) }
    var isLockedPIN: Bool { isOne(of: cpkcs11_pin_locked) }

    private func isOne(of codes: Int...) -> Bool { codes.contains(Int(code)) }

    /// Its name in the standard, or its number.
    static func name(_ code: UInt) -> String {
        names[code] ?? "CKR 0x" + String(code, radix: 16)
    }

    private static let names: [UInt: String] = [
        0x5: "CKR_GENERAL_ERROR", 0x6: "CKR_FUNCTION_FAILED", 0x7: "CKR_ARGUMENTS_BAD", 0x30: "CKR_DEVICE_ERROR",
        0x32: "CKR_DEVICE_REMOVED", 0x40: "CKR_ENCRYPTED_DATA_INVALID", 0x68: "CKR_KEY_FUNCTION_NOT_PERMITTED",
        0x70: "CKR_MECHANISM_INVALID", 0x71: "CKR_MECHANISM_PARAM_INVALID", 0xa0: "CKR_PIN_INCORRECT",
        0xa1: "CKR_PIN_INVALID", 0xa2: "CKR_PIN_LEN_RANGE", 0xa3: "CKR_PIN_EXPIRED", 0xa4: "CKR_PIN_LOCKED",
        0xe0: "CKR_TOKEN_NOT_PRESENT", 0x101: "CKR_USER_NOT_LOGGED_IN", 0x102: "CKR_USER_PIN_NOT_INITIALIZED",
    ]
}

extension PKCS11Failure: CustomStringConvertible {
    var description: String { "\(call): \(Self.name(code))" }
}
