package invoice

// Party is a seller, buyer, payee or tax representative.
type Party struct {
	Name      string       `json:"name,omitzero"`       // BT-27, 44, 59, 62
	TradeName string       `json:"trade_name,omitzero"` // BT-28, 45
	IDs       []Identifier `json:"ids,omitempty"`       // BT-29, 46, 60
	Legal     Identifier   `json:"legal,omitzero"`      // BT-30, 47, 61
	VATID     string       `json:"vat_id,omitzero"`     // BT-31, 48, 63: with the country's letters
	TaxID     string       `json:"tax_id,omitzero"`     // BT-32; China: the taxpayer's identification number
	LegalInfo string       `json:"legal_info,omitzero"` // BT-33
	Endpoint  Identifier   `json:"endpoint,omitzero"`   // BT-34, 49
	Address   *Address     `json:"address,omitzero"`    // BG-5, 8, 12; nil when there is none
	Contact   *Contact     `json:"contact,omitzero"`    // BG-6, 9
	Account   string       `json:"account,omitzero"`    // China: bank and account, in one text
}

// Address is a postal address.
type Address struct {
	Line1   string `json:"line1,omitzero"`
	Line2   string `json:"line2,omitzero"`
	Line3   string `json:"line3,omitzero"`
	City    string `json:"city,omitzero"`
	Zone    string `json:"zone,omitzero"` // postal code
	Region  string `json:"region,omitzero"`
	Country string `json:"country,omitzero"` // ISO 3166-1 alpha-2
}

// Contact is whom to ask.
type Contact struct {
	Name  string `json:"name,omitzero"`
	Phone string `json:"phone,omitzero"`
	Email string `json:"email,omitzero"`
}

// Identity returns the party's best identifier, normalized. In order of preference: VAT id, tax
// number, registration number, own id, electronic address, name. A prefix ("vat:", "tax:",
// "legal:", "id:", "mail:", "name:") keeps identifiers of different kinds distinct. A party without
// any of them gives "".
func (p *Party) Identity() string {
	switch {
	case p.VATID != "":
		return "vat:" + plainID(p.VATID)
	case p.TaxID != "":
		return "tax:" + plainID(p.TaxID)
	case p.Legal.ID != "":
		return "legal:" + p.Legal.plain()
	case len(p.IDs) > 0 && p.IDs[0].ID != "":
		return "id:" + p.IDs[0].plain()
	case p.Endpoint.ID != "":
		return "mail:" + p.Endpoint.plain()
	case p.Name != "":
		return "name:" + plainText(p.Name)
	}
	return ""
}

// ID returns the party's best identifier as written, without prefix. It is never the name; "" if
// there is none.
func (p *Party) ID() string {
	switch {
	case p.VATID != "":
		return p.VATID
	case p.TaxID != "":
		return p.TaxID
	case p.Legal.ID != "":
		return p.Legal.ID
	case len(p.IDs) > 0:
		return p.IDs[0].ID
	}
	return p.Endpoint.ID
}

// plain returns the scheme and id, normalized.
func (i Identifier) plain() string {
	if i.Scheme == "" {
		return plainText(i.ID)
	}
	return plainText(i.Scheme) + ":" + plainText(i.ID)
}
