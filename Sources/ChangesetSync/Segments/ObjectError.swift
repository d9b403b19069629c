/// Why an object of a remote cannot be used. Everything else of the remote can.
enum ObjectError: Error, Hashable, Sendable {
    /// Its bytes are not those that its name has the hash of.
    case damaged
    /// A later version of this library has written it.
    case laterVersion(UInt8)
    case otherRepository
    /// It is sealed with the secret of an epoch that this replica does not have.
    case unknownEpoch(CommitTag)
    /// It does not open with the secret of its epoch: a forgery.
    case notAuthentic
    /// It is authentic, so a member sealed it, and its content is no valid one.
    case malformed(CommitError)
    /// Its content is another one than its name says.
    case otherContent
    /// The signature is not that of the author.
    case wrongSignature
    /// The author may not write.
    case notAllowed
    /// The list of members lacks the author.
    case unknownAuthor
}

extension ObjectError: CustomStringConvertible {
    package var description: String {
        switch self {
        case .damaged: "The object has other bytes than its name says. A replica that has the content puts it again."
        case .laterVersion(let version): "The object has version \(version). Update this program."
        case .otherRepository: "The object belongs to another repository. Remove it from the remote."
        case .unknownEpoch:
            "The object is sealed with a secret that this replica lacks. Ask an admin to admit the replica."
        case .notAuthentic: "The object is no work of a member. Remove it from the remote."
        case .malformed(let error): "A member has sealed an object that is no valid one. \(error)"
        case .otherContent: "A member has given an object a name of another content. Find the member."
        case .wrongSignature: "A member has sealed commits that their author has not signed. Find the member."
        case .notAllowed: "The author of the object may not write. Ask an admin."
        case .unknownAuthor:
            "The author of the object is not in the list of members. Sync with a remote that has the list."
        }
    }
}
